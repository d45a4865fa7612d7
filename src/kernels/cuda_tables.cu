#include "kernels/cuda_tables.h"

namespace inkling {
namespace {

template <typename Element>
CudaKernels<Element> filled_table() {
  CudaKernels<Element> table = {};
  cuda::fill_norm(table);
  cuda::fill_activation(table);
  cuda::fill_cross_entropy(table);
  cuda::fill_embedding(table);
  cuda::fill_rotate(table);
  cuda::fill_conv(table);
  cuda::fill_flat_memory(table);
  cuda::fill_decode(table);
  cuda::fill_attend_cached(table);
  cuda::fill_sample(table);
  return table;
}

}  // namespace

template <>
const CudaKernels<float>& cuda_kernels<float>() {
  static const CudaKernels<float> table = filled_table<float>();
  return table;
}

template <>
const CudaKernels<BFloat16>& cuda_kernels<BFloat16>() {
  static const CudaKernels<BFloat16> table = filled_table<BFloat16>();
  return table;
}

}  // namespace inkling
