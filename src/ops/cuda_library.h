// The CUDA half of the fused operations: kernels, matrix products with epilogues, and graphs of a whole step. It is a
// library of its own, libinkling_cuda.so, loaded when a run asks for fused kernels on a GPU, so that programs on the
// CPU start without CUDA. Everything here only queues work on the current stream and can be captured in a graph.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>
#include <functional>

#include "base/error.h"
#include "kernels/cuda_kernels.h"
#include "ops/context.h"

namespace inkling {

// What a matrix product does with its result before it is written.
struct Epilogue {
  enum class Kind {
    none,
    bias,           // + vector [n]
    gelu,           // + vector [n] (may be undefined); that goes to `pre`, and gelu (tanh) of it is the result
    gelu_gradient,  // * gelu'(pre) (tanh)
    column_sums,    // as it is; the column sums of b go to vector [n], float32, which is zero before
  };
  Kind kind = Kind::none;
  at::Tensor vector = {};   // read, but for the column sums
  at::Tensor pre = {};      // [m, n]
  bool accumulate = false;  // add to what out holds
};

struct CudaLibrary {
  const CudaKernels<float>& float32;
  const CudaKernels<BFloat16>& bfloat16;
  // out [m, n] = a [m, k] b [k, n], sums in float32. a and b have a dtype and may be transposed views; out has theirs,
  // or is float32. False where the library has no such product with that epilogue; then nothing was queued.
  bool (*multiply)(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out, const Epilogue& epilogue);
  // Calls work() once, which queues on the current stream (not the default one), and records that instead of running
  // it. The result queues it again, with new contents of the same tensors. Recordings of one `family` (any number)
  // share memory for what lives within them: they must not run at the same time.
  std::function<void()> (*record)(int family, const std::function<void()>& work);
};

// The library for tensors where x is: null on the CPU. Error environment if there is none for a GPU.
const CudaLibrary* cuda_library(const at::Tensor& x);

inline bool fused_on_cpu(const at::Tensor& x, const Context& context) {
  return context.kernels == Kernels::fused && cuda_library(x) == nullptr;
}

// For tests: `library` works on tensors of the CPU instead, null ends that.
void emulate_cuda_library(const CudaLibrary* library);

// The current stream of the device of x; null on the CPU.
inline Stream current_stream(const at::Tensor& x) {
  if (x.is_cpu()) return nullptr;
  return c10::impl::VirtualGuardImpl(x.device().type()).getStream(x.device()).native_handle();
}

// body(kernels, element): the kernels for the dtype of `like`, and a value of their Element.
template <typename Body>
void with_kernels(const CudaLibrary& library, const at::Tensor& like, const Body& body) {
  if (like.scalar_type() == at::kFloat) {
    body(library.float32, float{});
  } else {
    body(library.bfloat16, BFloat16{});
  }
}

// The elements of a contiguous tensor; null for an undefined one. Error internal for another.
template <typename Element>
Element* elements(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  if (!tensor.is_contiguous()) throw Error::internal("a kernel was given a tensor with gaps");
  return static_cast<Element*>(tensor.data_ptr());
}

// As CudaLibrary::multiply, for products that there must be: Error internal otherwise.
void multiply(const CudaLibrary& library, const at::Tensor& a, const at::Tensor& b, const at::Tensor& out,
              const Epilogue& epilogue = {});

// `count` floats beside x for a kernel to work with.
at::Tensor cuda_scratch(const at::Tensor& x, std::int64_t count);

}  // namespace inkling
