// The one symbol of libinkling_cuda.so.
#include <ATen/cuda/CUDAGraph.h>

#include <exception>
#include <functional>
#include <map>
#include <memory>

#include "cuda/products.h"

namespace inkling {
namespace {

// After an error the stream must not stay in capture, and a second error must not hide the first.
void end_quietly(at::cuda::CUDAGraph& graph) {
  try {
    graph.capture_end();
  } catch (const std::exception&) {
  }
}

// LibTorch's graphs: their memory comes from the caching allocator, and dropout inside attention draws new numbers each
// time.
std::function<void()> record(int family, const std::function<void()>& work) {
  static std::map<int, std::weak_ptr<at::cuda::MempoolId_t>> pools;  // LibTorch forgets a pool with its last graph
  auto pool = pools[family].lock();
  if (!pool) pools[family] = pool = std::make_shared<at::cuda::MempoolId_t>(at::cuda::graph_pool_handle());
  const auto graph = std::make_shared<at::cuda::CUDAGraph>();
  graph->capture_begin(*pool);
  try {
    work();
  } catch (...) {
    end_quietly(*graph);
    throw;
  }
  graph->capture_end();
  return [graph, pool] { graph->replay(); };
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
