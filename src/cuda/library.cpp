// The one symbol of libinkling_cuda.so.
#include <ATen/cuda/CUDAGraph.h>

#include <functional>
#include <map>
#include <memory>

#include "cuda/products.h"

namespace inkling {
namespace {

// LibTorch's graphs: their memory comes from the caching allocator, and dropout inside attention draws new numbers each
// time.
std::function<void()> record(int family, const std::function<void()>& work) {
  static std::map<int, at::MempoolId_t> pools;
  const auto [pool, is_new] = pools.try_emplace(family);
  if (is_new) pool->second = at::cuda::graph_pool_handle();
  const auto graph = std::make_shared<at::cuda::CUDAGraph>();
  graph->capture_begin(pool->second);
  work();
  graph->capture_end();
  return [graph] { graph->replay(); };
}

}  // namespace
}  // namespace inkling

extern "C" __attribute__((visibility("default"))) const inkling::CudaLibrary& inkling_cuda_library() {
  static const inkling::CudaLibrary library = {.float32 = inkling::cuda_kernels<float>(),
                                               .bfloat16 = inkling::cuda_kernels<inkling::BFloat16>(),
                                               .multiply = inkling::cuda::multiply,
                                               .record = inkling::record};
  return library;
}
