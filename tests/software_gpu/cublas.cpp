// A stand-in for libcublas.so.13: the products that LibTorch calls, checked and counted, and computed where nothing
// else computes them.
#include <cublas_v2.h>

#include <algorithm>
#include <mutex>

#include "products.h"

namespace software_gpu {
namespace {

struct Context {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  void* workspace = nullptr;  // null: cublas has one of its own
  std::size_t workspace_bytes = 0;
};

Context& context_of(cublasHandle_t handle) { return *reinterpret_cast<Context*>(handle); }

// Calls body(context) where the handle is one.
template <typename Body>
cublasStatus_t with(cublasHandle_t handle, const Body& body) {
  const std::scoped_lock lock(mutex());
  if (!handles().contains(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  return body(context_of(handle));
}

struct Scalars {
  const void *alpha, *beta;
  cudaDataType_t type;
};

Matrix matrix(const void* data, cudaDataType_t type, std::int64_t leading, std::int64_t batch_stride = 0) {
  return {.data = data, .type = type, .leading = leading, .batch_stride = batch_stride};
}

// Gives a product whose d has its extents those of its other matrices.
void give_extents(Product& product, std::int64_t depth) {
  const auto give = [](Matrix& matrix, std::int64_t rows, std::int64_t columns, bool is_transposed) {
    matrix.rows = is_transposed ? columns : rows;
    matrix.columns = is_transposed ? rows : columns;
  };
  give(product.a, product.d.rows, depth, product.transpose_a);
  give(product.b, depth, product.d.columns, product.transpose_b);
  product.c = product.d;
}

bool is_supported(const Product& product, cudaDataType_t scale) {
  const cudaDataType_t in = product.a.type, out = product.d.type;
  if (in != product.b.type) return false;
  if (scale == CUDA_R_64F) return in == CUDA_R_64F && out == CUDA_R_64F;
  return scale == CUDA_R_32F &&
         (out == CUDA_R_32F ? in == CUDA_R_32F || in == CUDA_R_16BF : out == CUDA_R_16BF && in == CUDA_R_16BF);
}

cublasStatus_t run(cublasHandle_t handle, Product product, std::int64_t depth, const Scalars& scalars) {
  return with(handle, [&](const Context& context) {
    give_extents(product, depth);
    const std::string wrong = misfit(product);
    if (!wrong.empty() || depth < 0) {
      complain((wrong.empty() ? "a negative depth" : wrong) + ": " + describe(product));
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!is_supported(product, scalars.type)) {
      count(product.name + " refuses its types");
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (product.batch == 0 || product.d.rows == 0 || product.d.columns == 0) return CUBLAS_STATUS_SUCCESS;
    const bool on_device = context.pointers == CUBLAS_POINTER_MODE_DEVICE;
    product.alpha = Factor::read(scalars.alpha, scalars.type, on_device);
    product.beta = Factor::read(scalars.beta, scalars.type, on_device);
    product.workspace = context.workspace;
    constexpr std::size_t used = 1 << 16;  // bytes that count as used: cublas does not say
    product.workspace_bytes = context.workspace == nullptr ? 0 : std::min(used, context.workspace_bytes);
    return queue_product(context.stream, product);
  });
}

bool is_transposed(cublasOperation_t operation) { return operation != CUBLAS_OP_N; }

// The type of alpha and beta. COMPUTE_16F has halves, of which there are none here.
cudaDataType_t scale_of(cublasComputeType_t compute) {
  if (compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC) return CUDA_R_64F;
  return compute == CUBLAS_COMPUTE_16F || compute == CUBLAS_COMPUTE_16F_PEDANTIC ? CUDA_R_16F : CUDA_R_32F;
}

Matrix result(void* data, cudaDataType_t type, std::int64_t rows, std::int64_t columns, std::int64_t leading,
              std::int64_t batch_stride = 0) {
  Matrix made = matrix(data, type, leading, batch_stride);
  made.rows = rows;
  made.columns = columns;
  return made;
}

// y = alpha op(A) x + beta y, as the product y^T = x^T op(A)^T of rows, whose elements may lie apart.
struct MatrixVector {
  const char* name;
  cublasOperation_t operation;
  int rows, columns;  // of A
  Matrix a, x, y;     // x and y: their increment is `leading`
};

cublasStatus_t run(cublasHandle_t handle, MatrixVector from, const Scalars& scalars) {
  const bool transposed = is_transposed(from.operation);
  from.y.rows = 1;
  from.y.columns = transposed ? from.columns : from.rows;
  const Product product = {.name = from.name, .transpose_b = !transposed, .a = from.x, .b = from.a, .d = from.y};
  return run(handle, product, transposed ? from.rows : from.columns, scalars);
}

}  // namespace
}  // namespace software_gpu

using namespace software_gpu;

extern "C" {

const char* cublasGetStatusName(cublasStatus_t status) { return name_of(status); }
const char* cublasGetStatusString(cublasStatus_t status) { return name_of(status); }

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  const std::scoped_lock lock(mutex());
  count("cublasCreate");
  auto* const made = new Context;
  handles().insert(made);
  *handle = reinterpret_cast<cublasHandle_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  return with(handle, [&](Context& context) {
    handles().erase(handle);
    delete &context;
    return CUBLAS_STATUS_SUCCESS;
  });
}

// Takes the workspace away too, as cublas does.
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  return with(handle, [&](Context& context) {
    context.stream = stream;
    context.workspace = nullptr;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  return with(handle, [&](Context& context) {
    const bool is_right = bytes == 0 || (is_device_memory(workspace) && is_live(workspace, bytes));
    if (!is_right || reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) {
      complain("cublasSetWorkspace is given what is not live device memory, aligned to 256 bytes");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    context.workspace = bytes == 0 ? nullptr : workspace;
    context.workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return with(handle, [&](Context& context) {
    context.math = mode;
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return with(handle, [&](const Context& context) {
    *mode = context.math;
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  return with(handle, [&](Context& context) {
    context.pointers = mode;
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  return with(handle, [&](const Context& context) {
    *mode = context.pointers;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t a_operation,
                                          cublasOperation_t b_operation, int m, int n, int k, const void* alpha,
                                          const void* a, cudaDataType a_type, int a_leading, long long a_stride,
                                          const void* b, cudaDataType b_type, int b_leading, long long b_stride,
                                          const void* beta, void* c, cudaDataType c_type, int c_leading,
                                          long long c_stride, int batch, cublasComputeType_t compute,
                                          cublasGemmAlgo_t) {
  const Product product = {.name = "cublasGemmStridedBatchedEx",
                           .transpose_a = is_transposed(a_operation),
                           .transpose_b = is_transposed(b_operation),
                           .a = matrix(a, a_type, a_leading, a_stride),
                           .b = matrix(b, b_type, b_leading, b_stride),
                           .d = result(c, c_type, m, n, c_leading, c_stride),
                           .batch = batch};
  return run(handle, product, k, {alpha, beta, scale_of(compute)});
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_operation, cublasOperation_t b_operation, int m,
                            int n, int k, const void* alpha, const void* a, cudaDataType a_type, int a_leading,
                            const void* b, cudaDataType b_type, int b_leading, const void* beta, void* c,
                            cudaDataType c_type, int c_leading, cublasComputeType_t compute, cublasGemmAlgo_t) {
  const Product product = {.name = "cublasGemmEx",
                           .transpose_a = is_transposed(a_operation),
                           .transpose_b = is_transposed(b_operation),
                           .a = matrix(a, a_type, a_leading),
                           .b = matrix(b, b_type, b_leading),
                           .d = result(c, c_type, m, n, c_leading)};
  return run(handle, product, k, {alpha, beta, scale_of(compute)});
}

cublasStatus_t cublasSgemmEx(cublasHandle_t handle, cublasOperation_t a_operation, cublasOperation_t b_operation, int m,
                             int n, int k, const float* alpha, const void* a, cudaDataType a_type, int a_leading,
                             const void* b, cudaDataType b_type, int b_leading, const float* beta, void* c,
                             cudaDataType c_type, int c_leading) {
  const Product product = {.name = "cublasSgemmEx",
                           .transpose_a = is_transposed(a_operation),
                           .transpose_b = is_transposed(b_operation),
                           .a = matrix(a, a_type, a_leading),
                           .b = matrix(b, b_type, b_leading),
                           .d = result(c, c_type, m, n, c_leading)};
  return run(handle, product, k, {alpha, beta, CUDA_R_32F});
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t a_operation, cublasOperation_t b_operation,
                              int m, int n, int k, const float* alpha, const float* a, int a_leading, const float* b,
                              int b_leading, const float* beta, float* c, int c_leading) {
  const Product product = {.name = "cublasSgemm",
                           .transpose_a = is_transposed(a_operation),
                           .transpose_b = is_transposed(b_operation),
                           .a = matrix(a, CUDA_R_32F, a_leading),
                           .b = matrix(b, CUDA_R_32F, b_leading),
                           .d = result(c, CUDA_R_32F, m, n, c_leading)};
  return run(handle, product, k, {alpha, beta, CUDA_R_32F});
}
cublasStatus_t cublasDgemm_v2(cublasHandle_t handle, cublasOperation_t a_operation, cublasOperation_t b_operation,
                              int m, int n, int k, const double* alpha, const double* a, int a_leading, const double* b,
                              int b_leading, const double* beta, double* c, int c_leading) {
  const Product product = {.name = "cublasDgemm",
                           .transpose_a = is_transposed(a_operation),
                           .transpose_b = is_transposed(b_operation),
                           .a = matrix(a, CUDA_R_64F, a_leading),
                           .b = matrix(b, CUDA_R_64F, b_leading),
                           .d = result(c, CUDA_R_64F, m, n, c_leading)};
  return run(handle, product, k, {alpha, beta, CUDA_R_64F});
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t a_operation,
                                         cublasOperation_t b_operation, int m, int n, int k, const float* alpha,
                                         const float* a, int a_leading, long long a_stride, const float* b,
                                         int b_leading, long long b_stride, const float* beta, float* c, int c_leading,
                                         long long c_stride, int batch) {
  const Product product = {.name = "cublasSgemmStridedBatched",
                           .transpose_a = is_transposed(a_operation),
                           .transpose_b = is_transposed(b_operation),
                           .a = matrix(a, CUDA_R_32F, a_leading, a_stride),
                           .b = matrix(b, CUDA_R_32F, b_leading, b_stride),
                           .d = result(c, CUDA_R_32F, m, n, c_leading, c_stride),
                           .batch = batch};
  return run(handle, product, k, {alpha, beta, CUDA_R_32F});
}
cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t handle, cublasOperation_t a_operation,
                                         cublasOperation_t b_operation, int m, int n, int k, const double* alpha,
                                         const double* a, int a_leading, long long a_stride, const double* b,
                                         int b_leading, long long b_stride, const double* beta, double* c,
                                         int c_leading, long long c_stride, int batch) {
  const Product product = {.name = "cublasDgemmStridedBatched",
                           .transpose_a = is_transposed(a_operation),
                           .transpose_b = is_transposed(b_operation),
                           .a = matrix(a, CUDA_R_64F, a_leading, a_stride),
                           .b = matrix(b, CUDA_R_64F, b_leading, b_stride),
                           .d = result(c, CUDA_R_64F, m, n, c_leading, c_stride),
                           .batch = batch};
  return run(handle, product, k, {alpha, beta, CUDA_R_64F});
}

cublasStatus_t cublasSgemv_v2(cublasHandle_t handle, cublasOperation_t operation, int rows, int columns,
                              const float* alpha, const float* a, int a_leading, const float* x, int x_increment,
                              const float* beta, float* y, int y_increment) {
  return run(handle,
             {"cublasSgemv", operation, rows, columns, matrix(a, CUDA_R_32F, a_leading),
              matrix(x, CUDA_R_32F, x_increment), matrix(y, CUDA_R_32F, y_increment)},
             {alpha, beta, CUDA_R_32F});
}
cublasStatus_t cublasDgemv_v2(cublasHandle_t handle, cublasOperation_t operation, int rows, int columns,
                              const double* alpha, const double* a, int a_leading, const double* x, int x_increment,
                              const double* beta, double* y, int y_increment) {
  return run(handle,
             {"cublasDgemv", operation, rows, columns, matrix(a, CUDA_R_64F, a_leading),
              matrix(x, CUDA_R_64F, x_increment), matrix(y, CUDA_R_64F, y_increment)},
             {alpha, beta, CUDA_R_64F});
}

}  // extern "C"
