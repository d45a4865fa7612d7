// Matrix products, as cublaslt.cpp and cublas.cpp describe them. Matrices lie column by column, as NVIDIA's libraries
// count them.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "software_gpu.h"

namespace software_gpu {

// A matrix, or a batch of them, as it lies in memory. The address is the device's.
struct Matrix {
  const void* data = nullptr;
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, leading = 0;  // elements
  std::int64_t batch_stride = 0;                    // elements
};

// alpha or beta: a number that was read when the call was made, or one that is read on the device when its turn comes.
struct Factor {
  double value = 0.0;
  const void* on_device = nullptr;
  cudaDataType_t type = CUDA_R_32F;

  static Factor read(const void* number, cudaDataType_t type, bool is_on_device);
  double now() const;
  bool may_count() const { return on_device != nullptr || value != 0.0; }
};

// What follows the sums. cublasLtEpilogue_t says what is in `vector` and `auxiliary`.
struct Finish {
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  Matrix vector = {};     // one column
  Matrix auxiliary = {};  // where it is of bits, its `leading` and `batch_stride` count bits

  bool adds_bias() const;
  bool stores_row_sums() const;  // of the result: DRELU_BGRAD, DGELU_BGRAD
  bool sums_first() const;       // BGRADA
  bool sums_second() const;      // BGRADB
  bool has_vector() const { return adds_bias() || writes_vector(); }
  bool writes_vector() const { return stores_row_sums() || sums_first() || sums_second(); }
  bool has_auxiliary() const;
  bool writes_auxiliary() const;
  bool has_bits() const;  // the auxiliary matrix, with RELU
};

// d = finish(alpha op(a) op(b) + beta c), where d may be c.
struct Product {
  std::string name = {};  // of the call, with its epilogue
  bool transpose_a = false, transpose_b = false;
  Factor alpha = {}, beta = {};
  Matrix a = {}, b = {}, c = {}, d = {};
  std::int64_t batch = 1;
  Finish finish = {};
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;  // that it uses

  std::int64_t depth() const { return transpose_a ? a.rows : a.columns; }  // k
};

// --- products.cpp

std::size_t size_of(cudaDataType_t type);  // 0 for what the GPU in software has no numbers of
void multiply(const Product& product);     // for work whose turn has come

// --- product_checks.cpp

std::string describe(const Product& product);
// Returns why no product has such extents, empty where one has.
std::string misfit(const Product& product);
// Checks where the operands lie, counts the product and puts it on the stream.
cublasStatus_t queue_product(cudaStream_t stream, const Product& product);
const char* name_of(cublasStatus_t status);
// The handles of both libraries: cublasLt takes those of cublas too.
std::set<const void*>& handles();

}  // namespace software_gpu
