// cublas's products, as LibTorch calls them, against sums in double on the host; on a GPU and on the GPU in software.
#include <cublas_v2.h>

#include "product_objects.h"
#include "tests/oracle/rounding.h"

namespace inkling {
namespace {

class Cublas : public OnGpu<testing::TestWithParam<int>> {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
  }
  void TearDown() override {
    if (handle == nullptr) return;
    EXPECT_EQ(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
  }

  cublasHandle_t handle = nullptr;
  static constexpr float alpha = 0.5f, beta = -2.0f;
};

constexpr int tall = 24, wide = 10, deep = 37, items = 3;

// Of alpha times a sum of `depth` products, and of beta times what was there before.
double error_of(double wanted, cudaDataType_t type) {
  const double kept = type == CUDA_R_16BF ? oracle::bfloat16_roundoff : oracle::float32_roundoff;
  return oracle::sum_error(deep) + oracle::rounding_error(3.0) * (2.0 + std::fabs(wanted)) + kept * std::fabs(wanted);
}

// c = alpha a^T b + beta c, for each of a batch.
void expect_product(const DeviceMatrix& a, const DeviceMatrix& b, const DeviceMatrix& before, DeviceMatrix& c) {
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  c.read_back();
  for (int item = 0; item < c.extents().batch; ++item) {
    for (int column = 0; column < wide; ++column) {
      for (int row = 0; row < tall; ++row) {
        double sum = 0.0;
        for (int i = 0; i < deep; ++i) sum += a.at(item, i, row) * b.at(item, i, column);
        const double wanted = 0.5 * sum - 2.0 * before.at(item, row, column);
        ASSERT_NEAR(c.at(item, row, column), wanted, error_of(wanted, c.type()))
            << item << ": " << row << ", " << column;
      }
    }
  }
}

TEST_P(Cublas, MultipliesMatrices) {
  const DeviceMatrix a({deep, tall, deep + 3}, CUDA_R_32F, 1), b({deep, wide, deep}, CUDA_R_32F, 2);
  DeviceMatrix before({tall, wide, tall + 8}, CUDA_R_32F, 3), c({tall, wide, tall + 8}, CUDA_R_32F, 3);
  ASSERT_EQ(cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, tall, wide, deep, &alpha, static_cast<float*>(a.data()),
                        deep + 3, static_cast<float*>(b.data()), deep, &beta, static_cast<float*>(c.data()), tall + 8),
            CUBLAS_STATUS_SUCCESS);
  expect_product(a, b, before, c);
}

TEST_P(Cublas, MultipliesBatchesInBfloat16WithFactorsOnTheDevice) {
  const DeviceBytes factors(2 * sizeof(float));
  auto* const on_device = static_cast<float*>(factors.data);
  ASSERT_EQ(cudaMemcpy(on_device, &alpha, sizeof alpha, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(on_device + 1, &beta, sizeof beta, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
  const DeviceMatrix a({deep, tall, deep, items}, CUDA_R_16BF, 1), b({deep, wide, deep, items}, CUDA_R_16BF, 2);
  const DeviceMatrix before({tall, wide, tall, items}, CUDA_R_16BF, 3);
  DeviceMatrix c({tall, wide, tall, items}, CUDA_R_16BF, 3);
  ASSERT_EQ(cublasGemmStridedBatchedEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, tall, wide, deep, on_device, a.data(),
                                       CUDA_R_16BF, deep, a.extents().stride(), b.data(), CUDA_R_16BF, deep,
                                       b.extents().stride(), on_device + 1, c.data(), CUDA_R_16BF, tall,
                                       c.extents().stride(), items, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  expect_product(a, b, before, c);
}

// Vectors are rows of matrices here, so that their elements lie apart.
TEST_P(Cublas, MultipliesVectors) {
  for (const bool transposed : {false, true}) {
    const int length = transposed ? tall : deep, results = transposed ? deep : tall;
    const DeviceMatrix a({tall, deep, tall + 1}, CUDA_R_32F, 1), x({1, length, 3}, CUDA_R_32F, 2);
    const DeviceMatrix before({1, results, 2}, CUDA_R_32F, 3);
    DeviceMatrix y({1, results, 2}, CUDA_R_32F, 3);
    ASSERT_EQ(
        cublasSgemv(handle, transposed ? CUBLAS_OP_T : CUBLAS_OP_N, tall, deep, &alpha, static_cast<float*>(a.data()),
                    tall + 1, static_cast<float*>(x.data()), 3, &beta, static_cast<float*>(y.data()), 2),
        CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    y.read_back();
    for (int i = 0; i < results; ++i) {
      double sum = 0.0;
      for (int j = 0; j < length; ++j) sum += (transposed ? a.at(0, j, i) : a.at(0, i, j)) * x.at(0, 0, j);
      const double wanted = 0.5 * sum - 2.0 * before.at(0, 0, i);
      ASSERT_NEAR(y.at(0, 0, i), wanted, error_of(wanted, CUDA_R_32F)) << i;
    }
  }
}

// LibTorch gives cublasLt the handles of cublas.
TEST_P(Cublas, HasHandlesForCublasLt) {
  const ProductForm::Layout square = {CUDA_R_32F, 8, 8, 8};
  const ProductForm form = {.a = square, .b = square, .c = square, .d = square};
  const DescribedProduct product(form);
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 8, 8, 8), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(reinterpret_cast<cublasLtHandle_t>(handle), product.product(), layout,
                                           layout, layout, layout, preference, 1, &result, &found),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(found, 1);
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatrixLayoutDestroy(layout);
}

INSTANTIATE_TEST_SUITE_P(Cuda, Cublas, testing::Values(0));

}  // namespace
}  // namespace inkling
