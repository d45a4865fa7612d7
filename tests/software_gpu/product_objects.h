// What the tests of matrix products make: matrices on the device, descriptions of products, and their algorithms.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/needs_gpu.h"

namespace inkling {

struct DeviceBytes {
  explicit DeviceBytes(std::size_t bytes) { EXPECT_EQ(cudaMalloc(&data, bytes), cudaSuccess); }
  ~DeviceBytes() { cudaFree(data); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  void* data = nullptr;
};

inline std::size_t bytes_of(cudaDataType_t type) { return type == CUDA_R_16BF ? 2 : 4; }

// The bits of a value in an array of this type: bfloat16 keeps the upper half of a float, rounded to the nearest, ties
// to even.
inline std::uint32_t bits_of(float value, cudaDataType_t type) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (type != CUDA_R_16BF) return bits;
  return std::isnan(value) ? 0x7fffu : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}
inline float value_of(std::uint32_t bits, cudaDataType_t type) {
  return std::bit_cast<float>(type == CUDA_R_16BF ? bits << 16 : bits);
}

// A batch of matrices on the device, column by column, with NaN in the gaps that a leading dimension leaves.
class DeviceMatrix {
 public:
  struct Extents {
    int rows, columns, leading, batch = 1;
    std::int64_t stride() const { return std::int64_t{leading} * columns; }
  };

  // Numbers of either sign, uniform with variance 1; all zeros for key 0.
  DeviceMatrix(const Extents& extents, cudaDataType_t type, std::uint64_t key)
      : extents_(extents), type_(type), device_(count() * bytes_of(type)) {
    values_.assign(count(), std::numeric_limits<float>::quiet_NaN());
    for_each([&](std::size_t at, std::uint64_t i) {
      const double value = (random_unit(key, i) - 0.5) * std::sqrt(12.0);
      values_[at] = key == 0 ? 0.0f : value_of(bits_of(static_cast<float>(value), type), type);
    });
    std::vector<unsigned char> bytes(count() * bytes_of(type));
    for (std::size_t i = 0; i < count(); ++i) {
      const std::uint32_t bits = bits_of(values_[i], type);  // the lower bytes come first
      for (std::size_t byte = 0; byte < bytes_of(type); ++byte)
        bytes[i * bytes_of(type) + byte] = static_cast<unsigned char>(bits >> (8 * byte));
    }
    EXPECT_EQ(cudaMemcpy(device_.data, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), cudaSuccess);
  }

  void* data() const { return device_.data; }
  const Extents& extents() const { return extents_; }
  cudaDataType_t type() const { return type_; }

  // The value as the host wrote it, or as read_back() found it.
  double at(int item, int row, int column) const { return values_[index(item, row, column)]; }

  // Fetches the values; the gaps must be as they were.
  void read_back() {
    std::vector<unsigned char> bytes(count() * bytes_of(type_));
    ASSERT_EQ(cudaMemcpy(bytes.data(), device_.data, bytes.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    std::vector<float> read(count());
    for (std::size_t i = 0; i < count(); ++i) {
      std::uint32_t bits = 0;
      for (std::size_t byte = 0; byte < bytes_of(type_); ++byte)
        bits |= static_cast<std::uint32_t>(bytes[i * bytes_of(type_) + byte]) << (8 * byte);
      read[i] = value_of(bits, type_);
    }
    values_ = read;
    for_each([&](std::size_t at, std::uint64_t) { read[at] = std::numeric_limits<float>::quiet_NaN(); });
    for (const float value : read) ASSERT_TRUE(std::isnan(value)) << "something was written between the columns";
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(extents_.stride() * extents_.batch); }
  std::size_t index(int item, int row, int column) const {
    return static_cast<std::size_t>(item * extents_.stride() + std::int64_t{column} * extents_.leading + row);
  }
  template <typename Visit>
  void for_each(const Visit& visit) const {
    std::uint64_t i = 0;
    for (int item = 0; item < extents_.batch; ++item) {
      for (int column = 0; column < extents_.columns; ++column) {
        for (int row = 0; row < extents_.rows; ++row) visit(index(item, row, column), i++);
      }
    }
  }

  Extents extents_;
  cudaDataType_t type_;
  DeviceBytes device_;
  std::vector<float> values_;
};

// What a program tells cublasLt of a product before it says where the matrices are. Zeros are left unsaid.
struct ProductForm {
  struct Layout {
    cudaDataType_t type;
    int rows, columns, leading, batch = 1;
    std::int64_t stride = 0;
  };
  Layout a, b, c, d;
  bool transpose_a = false, transpose_b = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *vector = nullptr, *auxiliary = nullptr;
  std::int64_t vector_stride = 0, auxiliary_leading = 0, auxiliary_stride = 0;
  int vector_type = -1, auxiliary_type = -1;
  bool on_device = false;  // alpha and beta
  std::uint32_t alignment = 256;
  std::size_t workspace_bytes = std::size_t{4} << 20;
};

// cublasLt's descriptions of a form, and what it answers.
class DescribedProduct {
 public:
  explicit DescribedProduct(const ProductForm& form) {
    EXPECT_EQ(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    set(CUBLASLT_MATMUL_DESC_TRANSA, form.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, form.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, form.epilogue);
    if (form.on_device) set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
    if (form.vector != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, form.vector);
    if (form.vector_stride != 0) set(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, form.vector_stride);
    if (form.vector_type != -1) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, form.vector_type);
    if (form.auxiliary_type != -1) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, form.auxiliary_type);
    if (form.auxiliary != nullptr) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, form.auxiliary);
    if (form.auxiliary_leading != 0) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, form.auxiliary_leading);
    if (form.auxiliary_stride != 0) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, form.auxiliary_stride);
    a_ = layout(form.a);
    b_ = layout(form.b);
    c_ = layout(form.c);
    d_ = layout(form.d);
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference_), CUBLAS_STATUS_SUCCESS);
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, form.workspace_bytes);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(attribute, form.alignment);
    }
  }
  ~DescribedProduct() {
    cublasLtMatmulPreferenceDestroy(preference_);
    for (const cublasLtMatrixLayout_t matrix : {a_, b_, c_, d_}) cublasLtMatrixLayoutDestroy(matrix);
    cublasLtMatmulDescDestroy(product_);
  }
  DescribedProduct(const DescribedProduct&) = delete;
  DescribedProduct& operator=(const DescribedProduct&) = delete;

  struct Answer {
    cublasStatus_t status;
    std::vector<cublasLtMatmulHeuristicResult_t> results;
    bool has_any() const { return status == CUBLAS_STATUS_SUCCESS && !results.empty(); }
  };
  Answer ask(int wanted = 1) const {
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(wanted));
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle(), product_, a_, b_, c_, d_, preference_, wanted, results.data(), &found);
    results.resize(static_cast<std::size_t>(found));
    return {status, results};
  }

  struct Operands {
    const void *alpha, *a, *b, *beta, *c;
    void* d;
  };
  cublasStatus_t run(const Operands& on, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                     std::size_t workspace_bytes, cudaStream_t stream = nullptr) const {
    return cublasLtMatmul(handle(), product_, on.alpha, on.a, a_, on.b, b_, on.beta, on.c, c_, on.d, d_, algorithm,
                          workspace, workspace_bytes, stream);
  }

  cublasLtMatmulDesc_t product() const { return product_; }
  static cublasLtHandle_t handle() {
    static const cublasLtHandle_t one = [] {
      cublasLtHandle_t made = nullptr;
      EXPECT_EQ(cublasLtCreate(&made), CUBLAS_STATUS_SUCCESS);
      return made;
    }();
    return one;
  }

 private:
  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(product_, attribute, &value, sizeof value), CUBLAS_STATUS_SUCCESS);
  }
  template <typename Value>
  void prefer(cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value),
              CUBLAS_STATUS_SUCCESS);
  }
  static cublasLtMatrixLayout_t layout(const ProductForm::Layout& form) {
    cublasLtMatrixLayout_t made = nullptr;
    const auto rows = static_cast<std::uint64_t>(form.rows), columns = static_cast<std::uint64_t>(form.columns);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&made, form.type, rows, columns, form.leading), CUBLAS_STATUS_SUCCESS);
    cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &form.batch, sizeof form.batch);
    cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &form.stride,
                                     sizeof form.stride);
    return made;
  }

  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr, d_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
};

// Where there is no GPU, these tests are skipped.
template <typename Test = testing::Test>
class OnGpu : public Test {
 protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    cudaGetLastError();
    INKLING_NEEDS_GPU(error != cudaSuccess ? cudaGetErrorString(error) : count == 0 ? "CUDA counts no GPU" : "");
  }
};

}  // namespace inkling
