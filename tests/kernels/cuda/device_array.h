// What the tests of the CUDA kernels share: guarded arrays on the device, the values of both element types, comparison.
// The tests are compiled twice: against CUDA, where they need a GPU, and against emulation/, which runs the kernels'
// own sources on the CPU.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/random.h"
#include "kernels/cuda_kernels.h"
#include "tests/needs_gpu.h"
#include "tests/oracle/rounding.h"

namespace inkling {

// bfloat16 keeps the upper half of a float: to the nearest, ties to even.
inline BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
inline float to_float(BFloat16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

template <typename Element>
constexpr bool is_bfloat16 = std::is_same_v<Element, BFloat16>;

// The value as an array of Element would hold it.
template <typename Element>
float rounded_to(float value) {
  return is_bfloat16<Element> ? to_float(to_bfloat16(value)) : value;
}

// `size` elements on the device between guards of NaN: a read beside them shows in the result, a write is found by
// read(). The address sanitizer finds both itself, where there are no guards to hide them. The first element is
// `misplaced` elements after a multiple of 256 bytes. On the host, elements are float where the device has BFloat16.
template <typename Element>
class DeviceArray {
 public:
  using Host = std::conditional_t<is_bfloat16<Element>, float, Element>;

  // All bits set, which is NaN: for what a kernel must write before anybody reads it.
  explicit DeviceArray(std::int64_t size, std::size_t misplaced = 0)
      : size_(static_cast<std::size_t>(size)), begin_(guard_bytes + misplaced * sizeof(Element)) {
    const std::vector<unsigned char> unset(bytes(), 0xff);
    EXPECT_EQ(cudaMalloc(&data_, bytes()), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, unset.data(), bytes(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<Host>& values, std::size_t misplaced = 0)
      : DeviceArray(static_cast<std::int64_t>(values.size()), misplaced) {
    std::vector<Element> elements(size_);
    for (std::size_t i = 0; i < size_; ++i) {
      if constexpr (is_bfloat16<Element>) {
        elements[i] = to_bfloat16(values[i]);
      } else {
        elements[i] = values[i];
      }
    }
    EXPECT_EQ(cudaMemcpy(get(), elements.data(), size_ * sizeof(Element), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  Element* get() const { return reinterpret_cast<Element*>(static_cast<unsigned char*>(data_) + begin_); }

  std::vector<Host> read() const {
    std::vector<unsigned char> all(bytes());
    EXPECT_EQ(cudaMemcpy(all.data(), data_, bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    const std::size_t end = begin_ + size_ * sizeof(Element);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((i < begin_ || i >= end) && all[i] != 0xff) {
        ADD_FAILURE() << "a kernel wrote beside an array of " << size_ * sizeof(Element) << " bytes, at byte "
                      << static_cast<std::int64_t>(i) - static_cast<std::int64_t>(begin_);
        break;
      }
    }
    std::vector<Element> elements(size_);
    if (size_ > 0) std::memcpy(elements.data(), all.data() + begin_, size_ * sizeof(Element));
    std::vector<Host> values(size_);
    for (std::size_t i = 0; i < size_; ++i) {
      if constexpr (is_bfloat16<Element>) {
        values[i] = to_float(elements[i]);
      } else {
        values[i] = elements[i];
      }
    }
    return values;
  }

 private:
#ifdef __SANITIZE_ADDRESS__
  static constexpr std::size_t guard_bytes = 0;
#else
  static constexpr std::size_t guard_bytes = 1024;
#endif
  std::size_t bytes() const { return begin_ + size_ * sizeof(Element) + guard_bytes; }

  void* data_ = nullptr;
  std::size_t size_;
  std::size_t begin_;
};

// Standard normal numbers that Element holds exactly.
template <typename Element>
std::vector<float> normals(std::int64_t n, std::uint64_t key) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = rounded_to<Element>(static_cast<float>(random_normal(key, i)));
  }
  return values;
}

using oracle::function_roundings;
using oracle::rounding_error;
using oracle::sum_error;

// The size of the largest, at least 1.
template <typename Number>
double largest(const std::vector<Number>& values) {
  double found = 1.0;
  for (const Number value : values) found = std::fmax(found, std::fabs(static_cast<double>(value)));
  return found;
}

// What the kernels compute in float32 is within `float_error` of the same computation in double (relative to values of
// size 1, absolute below); tests derive it by tests/oracle/rounding.h. An array of bfloat16 adds half a unit of its
// last place, at most 2^-8 relative, when it is written.
template <typename Element>
void expect_near(const std::vector<float>& actual, const std::vector<double>& wanted, double float_error,
                 const char* what) {
  ASSERT_EQ(actual.size(), wanted.size());
  const double rounding = is_bfloat16<Element> ? std::ldexp(1.0, -8) : 0.0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double size = std::fabs(wanted[i]);
    ASSERT_NEAR(static_cast<double>(actual[i]), wanted[i], float_error * std::fmax(1.0, size) + rounding * size)
        << "element " << i << " of " << what;
  }
}

// One test per shape, for both elements, on 16-byte boundaries and off them.
struct Shape {
  std::int64_t rows, channels;
};
inline std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.rows << "x" << shape.channels;
}

class DeviceKernels : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    INKLING_NEEDS_GPU(error != cudaSuccess ? cudaGetErrorString(error) : count == 0 ? "CUDA counts no GPU" : "");
    rows = GetParam().rows;
    channels = GetParam().channels;
  }

  // Calls test.template operator()<Element>(misplaced), where arrays of elements are to be so misplaced.
  template <typename Test>
  void on_every_layout(const Test& test) const {
    for (const std::size_t misplaced : {std::size_t{0}, std::size_t{1}}) {
      if (misplaced > 0 && channels % 4 != 0) break;  // one element at a time anyway
      const std::string place = misplaced == 0 ? "" : ", off 16-byte boundaries";
      {
        SCOPED_TRACE("float32" + place);
        test.template operator()<float>(misplaced);
      }
      SCOPED_TRACE("bfloat16" + place);
      test.template operator()<BFloat16>(misplaced);
    }
  }

  std::size_t at(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>(row * channels + column);
  }

  std::int64_t rows = 0, channels = 0;
};

// The instantiation's name is the backend's: INKLING_BACKEND is Emulated or Cuda.
#define INKLING_ON_SHAPES(suite, ...) INKLING_ON_SHAPES_OF(INKLING_BACKEND, suite, __VA_ARGS__)
#define INKLING_ON_SHAPES_OF(backend, suite, ...)                        \
  INSTANTIATE_TEST_SUITE_P(backend, suite, testing::Values(__VA_ARGS__), \
                           [](const auto& shape) { return testing::PrintToString(shape.param); })

}  // namespace inkling
