#include "backend/cuda_backend.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Generator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace inkling::cuda {
namespace {

void try_to(const std::function<void()>& end) {
  try {
    end();
  } catch (const std::exception&) {  // a second error must not hide the first
  }
}

// LibTorch warns of a recording that is empty, which one is that fails at once.
struct NoWarnings : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

// The generator of a GPU's random numbers refuses to draw outside a recording from the beginning of one to its end. So
// where that end fails it begins anew, with the same seed.
void renew_generator(c10::DeviceIndex device) {
  at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  at::Generator other = at::cuda::detail::createCUDAGenerator(device);
  other.set_current_seed(generator.current_seed());
  generator.graphsafe_set_state(other);
}

// After an error the stream must not stay in capture, and later allocations must not go to the graph's memory. Where
// CUDA has given the capture up, capture_end() throws before it releases that memory; both allocators, the device's and
// that of pinned memory, would then ask a graph that is gone.
void end_capture(at::cuda::CUDAGraph& graph, at::cuda::MempoolId_t pool) {
  NoWarnings no_warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&no_warnings);
  const c10::DeviceIndex device = c10::cuda::current_device();
  bool has_ended = false;
  try_to([&] {
    graph.capture_end();
    has_ended = true;
  });
  if (!has_ended) try_to([&] { renew_generator(device); });
  try_to([&] {  // it throws where this was done
    c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool);
    c10::cuda::CUDACachingAllocator::releasePool(device, pool);
  });
  try_to([&] {
    at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool);
    at::getHostAllocator(at::kCUDA)->release_pool(pool);
  });
}

void return_kept_memory() {
  c10::cuda::device_synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();
}

std::shared_ptr<at::cuda::CUDAGraph> captured(at::cuda::MempoolId_t pool, const std::function<void()>& work) {
  auto graph = std::make_shared<at::cuda::CUDAGraph>();
  graph->capture_begin(pool);
  try {
    work();
    graph->capture_end();
  } catch (...) {
    end_capture(*graph, pool);
    throw;
  }
  return graph;
}

}  // namespace

Stream current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

// With LibTorch's graphs memory comes from the caching allocator, and dropout inside attention draws new numbers each
// time. A family's first recording takes memory of its own, so what the allocator keeps from work done before goes back
// to the device first, which means a wait; those after it find what they need there. Where they do not, because memory
// is short, the same is done for them.
std::function<void()> record(int family, const std::function<void()>& work) {
  static std::map<int, std::weak_ptr<at::cuda::MempoolId_t>> pools;  // LibTorch forgets a pool with its last graph
  auto pool = pools[family].lock();
  const bool is_first = pool == nullptr;
  if (is_first) {
    pools[family] = pool = std::make_shared<at::cuda::MempoolId_t>(at::cuda::graph_pool_handle());
    return_kept_memory();
  }
  std::shared_ptr<at::cuda::CUDAGraph> graph;
  try {
    graph = captured(*pool, work);
  } catch (const c10::OutOfMemoryError&) {
    if (is_first) throw;
    return_kept_memory();
    graph = captured(*pool, work);
  }
  return [graph, pool] { graph->replay(); };
}

}  // namespace inkling::cuda
