// Each source file fills in its own functions of the table.
#pragma once

#include "kernels/cuda_kernels.h"

namespace inkling::cuda {

template <typename Element>
void fill_norm(CudaKernels<Element>& table);
template <typename Element>
void fill_activation(CudaKernels<Element>& table);
template <typename Element>
void fill_cross_entropy(CudaKernels<Element>& table);
template <typename Element>
void fill_embedding(CudaKernels<Element>& table);
template <typename Element>
void fill_rotate(CudaKernels<Element>& table);
template <typename Element>
void fill_conv(CudaKernels<Element>& table);
template <typename Element>
void fill_flat_memory(CudaKernels<Element>& table);
template <typename Element>
void fill_decode(CudaKernels<Element>& table);
template <typename Element>
void fill_attend_cached(CudaKernels<Element>& table);
template <typename Element>
void fill_sample(CudaKernels<Element>& table);

}  // namespace inkling::cuda
