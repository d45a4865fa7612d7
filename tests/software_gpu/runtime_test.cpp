// What CUDA promises of captures, memory, streams and launches. These tests run on a GPU and on the GPU in software,
// and must say the same of both.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime_objects.h"
#include "tests/needs_gpu.h"

namespace inkling {
namespace {

// --- captures, in the two modes that refuse unsafe calls

class Captures : public testing::TestWithParam<cudaStreamCaptureMode> {
 protected:
  void SetUp() override {
    INKLING_NEEDS_GPU(why_no_gpu());
    on = std::make_unique<const Parts>();
    ASSERT_EQ(cudaStreamBeginCapture(on->stream, GetParam()), cudaSuccess);
  }

  // Ends the capture, which must be invalid, and says nothing more of the error.
  void expect_invalid() {
    EXPECT_EQ(cudaStreamEndCapture(on->stream, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    cudaGetLastError();
  }

  struct Parts {
    const DeviceInts first, second;
    const Stream stream, other;
    const Event event;
  };
  std::unique_ptr<const Parts> on;  // made where there is a GPU
  cudaGraph_t graph = nullptr;
};

TEST_P(Captures, AreInvalidatedByAWaitForTheirStream) {
  EXPECT_EQ(cudaStreamSynchronize(on->stream), cudaErrorStreamCaptureUnsupported);
  expect_invalid();
}

TEST_P(Captures, AreInvalidatedByAQuestionAboutTheirStream) {
  EXPECT_EQ(cudaStreamQuery(on->stream), cudaErrorStreamCaptureUnsupported);
  expect_invalid();
}

TEST_P(Captures, AreInvalidatedByAnAllocation) {
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 1024), cudaErrorStreamCaptureUnsupported);
  expect_invalid();
}

TEST_P(Captures, AllowAllocationsToAThreadThatIsRelaxed) {
  void* data = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&data, 1024), cudaSuccess);
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaStreamEndCapture(on->stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST_P(Captures, AreInvalidatedByAWaitForAnEventFromOutside) {
  ASSERT_EQ(cudaEventRecord(on->event, on->other), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(on->stream, on->event, 0), cudaErrorStreamCaptureIsolation);
  expect_invalid();
}

TEST_P(Captures, LetNobodyWaitForTheirEvents) {
  ASSERT_EQ(cudaEventRecord(on->event, on->stream), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(on->event), cudaErrorCapturedEvent);
  expect_invalid();
}

TEST_P(Captures, RefuseToEndWithAForkThatIsNotJoined) {
  ASSERT_EQ(cudaEventRecord(on->event, on->stream), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(on->other, on->event, 0), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(on->first.data, 1, on->first.bytes, on->other), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(on->stream, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  cudaGetLastError();
}

TEST_P(Captures, EndOnlyOnTheStreamWhereTheyBegan) {
  ASSERT_EQ(cudaEventRecord(on->event, on->stream), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(on->other, on->event, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(on->other, &graph), cudaErrorStreamCaptureUnmatched);
  cudaGetLastError();
  cudaStreamEndCapture(on->stream, &graph);
  cudaGetLastError();
}

TEST_P(Captures, MustNotBeJoined) {
  const Stream another;
  ASSERT_EQ(cudaStreamBeginCapture(another, GetParam()), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(on->event, another), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(on->stream, on->event, 0), cudaErrorStreamCaptureMerge);
  cudaStreamEndCapture(another, &graph);
  expect_invalid();
}

TEST_P(Captures, RecordTheirForksInOrderAndRunWhenLaunched) {
  ASSERT_EQ(cudaMemsetAsync(on->first.data, 1, on->first.bytes, on->stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(on->event, on->stream), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(on->other, on->event, 0), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(on->second.data, on->first.data, on->first.bytes, cudaMemcpyDeviceToDevice, on->other),
            cudaSuccess);
  const Event joined;
  ASSERT_EQ(cudaEventRecord(joined, on->other), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(on->stream, joined, 0), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(on->first.data, 2, on->first.bytes, on->stream), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(on->stream, &graph), cudaSuccess);
  std::size_t nodes = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 3u);

  on->first.write(7);
  on->second.write(7);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
  EXPECT_EQ(on->first.read(), std::vector<int>(size, 7));
  ASSERT_EQ(cudaGraphLaunch(executable, on->stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(on->stream), cudaSuccess);
  EXPECT_EQ(on->first.read(), std::vector<int>(size, 0x02020202));
  EXPECT_EQ(on->second.read(), std::vector<int>(size, 0x01010101));
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_P(Captures, OfABlockingStreamAreInvalidatedByWorkOnTheLegacyStream) {
  ASSERT_EQ(cudaStreamEndCapture(on->stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  const Stream blocking(cudaStreamDefault);
  ASSERT_EQ(cudaStreamBeginCapture(blocking, GetParam()), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(on->first.data, 1, on->first.bytes, nullptr), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
  cudaGetLastError();
}

INSTANTIATE_TEST_SUITE_P(Cuda, Captures, testing::Values(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal),
                         [](const auto& mode) {
                           return mode.param == cudaStreamCaptureModeGlobal ? "Global" : "Thread";
                         });

// --- memory, streams and launches of the first GPU

class Runtime : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    INKLING_NEEDS_GPU(why_no_gpu());
    ASSERT_EQ(cudaSetDevice(GetParam()), cudaSuccess);
  }
};

TEST_P(Runtime, RefusesMoreMemoryThanThereIsAndGoesOn) {
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_LE(free, total);
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, total + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  const DeviceInts after;
  after.write(3);
  EXPECT_EQ(after.read(), std::vector<int>(size, 3));
}

TEST_P(Runtime, RefusesToFreeTwice) {
  void* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 1024), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_NE(cudaFree(data), cudaSuccess);
  cudaGetLastError();
}

TEST_P(Runtime, CopiesRowsBetweenTheirPitches) {
  const DeviceInts device;
  device.write(-1);
  const std::vector<int> rows = {1, 2, 3, 4, 5, 6};
  constexpr std::size_t row = 3 * sizeof(int), pitch = 5 * sizeof(int);
  const Stream stream;
  ASSERT_EQ(cudaMemcpy2DAsync(device.data, pitch, rows.data(), row, row, 2, cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  std::vector<int> found = device.read();
  found.resize(9);
  EXPECT_EQ(found, (std::vector<int>{1, 2, 3, -1, -1, 4, 5, 6, -1}));
}

TEST_P(Runtime, KeepsTheOrderThatAnEventAsksFor) {
  const Stream first, second;
  const Event event;
  const PinnedInts there, back;
  const DeviceInts device;
  ASSERT_EQ(cudaMemcpyAsync(device.data, there.data, device.bytes, cudaMemcpyHostToDevice, first), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(back.data, device.data, device.bytes, cudaMemcpyDeviceToHost, second), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  for (int i = 0; i < size; ++i) ASSERT_EQ(back.ints()[i], i);
}

TEST_P(Runtime, PutsTheLegacyStreamBehindBlockingStreams) {
  const Stream blocking(cudaStreamDefault);
  const DeviceInts device;
  ASSERT_EQ(cudaMemsetAsync(device.data, 1, device.bytes, blocking), cudaSuccess);
  EXPECT_EQ(device.read(), std::vector<int>(size, 0x01010101));  // a cudaMemcpy()
}

TEST_P(Runtime, CallsFunctionsOfTheHostInTheirTurn) {
  const Stream stream;
  const PinnedInts there;
  const DeviceInts device;
  struct Seen {
    const PinnedInts* pinned;
    int last;
  } seen{&there, -1};
  const auto look = [](void* data) { static_cast<Seen*>(data)->last = static_cast<Seen*>(data)->pinned->ints()[9]; };
  ASSERT_EQ(cudaMemsetAsync(device.data, 1, device.bytes, stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(there.data, device.data, device.bytes, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(stream, look, &seen), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(seen.last, 0x01010101);
}

TEST_P(Runtime, RefusesLaunchesBeyondTheLimitsAndGoesOn) {
  constexpr const char* nothing = ".version 7.5\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  ASSERT_EQ(cudaLibraryLoadData(&library, nothing, nullptr, nullptr, 0, nullptr, nullptr, 0), cudaSuccess);
  ASSERT_EQ(cudaLibraryGetKernel(&kernel, library, "nothing"), cudaSuccess);
  const auto launch = [&](dim3 grid, dim3 block, std::size_t shared) {
    return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, nullptr, shared, nullptr);
  };
  EXPECT_EQ(launch({1, 65535}, {32, 32}, 48 * 1024), cudaSuccess);
  for (const cudaError_t error : {launch({1, 65536}, {32}, 0), launch({1, 1, 65536}, {32}, 0), launch({0}, {32}, 0),
                                  launch({1}, {2048}, 0), launch({1}, {1, 1, 65}, 0), launch({1}, {32}, 49 * 1024)}) {
    EXPECT_NE(error, cudaSuccess);
    cudaGetLastError();
  }
  EXPECT_EQ(launch({1}, {1024}, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaLibraryUnload(library), cudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(Cuda, Runtime, testing::Values(0));

}  // namespace
}  // namespace inkling
