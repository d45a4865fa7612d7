// What only the GPU in software shows: mistakes that a GPU forgives, mostly. A mistake ends its process with exit code
// 99, so each is made in a child.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "runtime_objects.h"
#include "tests/needs_gpu.h"

namespace inkling {
namespace {

class SoftwareGpu : public testing::Test {
 protected:
  void SetUp() override { INKLING_NEEDS_SOFTWARE_GPU(); }
  static constexpr int mistake = 99;
};

TEST_F(SoftwareGpu, GivesMemoryThatIsNoNumber) { EXPECT_EQ(DeviceInts().read(), std::vector<int>(size, -1)); }

TEST_F(SoftwareGpu, ShowsAMissingWaitAsOldData) {
  const Stream first, second;
  const DeviceInts device;
  const PinnedInts back;
  device.write(5);
  ASSERT_EQ(cudaMemsetAsync(device.data, 1, device.bytes, first), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(back.data, device.data, device.bytes, cudaMemcpyDeviceToHost, second), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(back.ints()[3], 5);
  ASSERT_EQ(cudaStreamSynchronize(first), cudaSuccess);
  EXPECT_EQ(device.read(), std::vector<int>(size, 0x01010101));
}

TEST_F(SoftwareGpu, IsReadyOnlyForThoseWhoAskAgain) {
  const Stream stream;
  const DeviceInts device;
  ASSERT_EQ(cudaMemsetAsync(device.data, 1, device.bytes, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  int questions = 1;
  while (cudaStreamQuery(stream) == cudaErrorNotReady && questions < 100) ++questions;
  EXPECT_LT(questions, 100);
  cudaGetLastError();
}

TEST_F(SoftwareGpu, FindsAHostThatTouchesDeviceMemory) {
  const DeviceInts device;
  EXPECT_EXIT(*static_cast<volatile int*>(device.data) = 1, testing::ExitedWithCode(mistake),
              "the host touches device memory");
}

TEST_F(SoftwareGpu, FindsAHostThatReadsBeforeACopyHasCome) {
  const Stream stream;
  const DeviceInts device;
  const PinnedInts back;
  const auto mistaken = [&] {
    cudaMemcpyAsync(back.data, device.data, device.bytes, cudaMemcpyDeviceToHost, stream);
    std::exit(*static_cast<volatile int*>(back.data) == 0 ? 0 : 1);
  };
  EXPECT_EXIT(mistaken(), testing::ExitedWithCode(mistake), "that a copy to the host is still to write");
}

// CUDA 13 records such a copy, and every replay would use memory that the host may long have given back.
TEST_F(SoftwareGpu, RefusesToRecordACopyOfPageableMemory) {
  const Stream stream;
  const DeviceInts device;
  std::vector<int> values(size);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(values.data(), device.data, device.bytes, cudaMemcpyDeviceToHost, stream),
            cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  cudaGetLastError();
}

TEST_F(SoftwareGpu, FindsAHostThatWritesBeforeACopyHasGone) {
  const Stream stream;
  const DeviceInts device;
  const PinnedInts there;
  const auto use = [&](bool writes) {
    cudaMemcpyAsync(device.data, there.data, device.bytes, cudaMemcpyHostToDevice, stream);
    const int read = static_cast<volatile int*>(there.data)[1];
    if (writes) static_cast<volatile int*>(there.data)[1] = read;
    std::exit(read == 1 ? 0 : 1);
  };
  EXPECT_EXIT(use(true), testing::ExitedWithCode(mistake), "that a copy to the device is still to read");
  EXPECT_EXIT(use(false), testing::ExitedWithCode(0), "");
}

TEST_F(SoftwareGpu, FindsAGraphWhoseMemoryIsFreed) {
  const Stream stream;
  const auto mistaken = [&] {
    void* data = nullptr;
    cudaMalloc(&data, 1024);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(data, 0, 1024, stream);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiateWithFlags(&executable, graph, 0);
    cudaFree(data);
    cudaGraphLaunch(executable, stream);
    cudaStreamSynchronize(stream);
    std::exit(0);
  };
  EXPECT_EXIT(mistaken(), testing::ExitedWithCode(mistake), "a memset uses device memory that has been freed");
}

TEST_F(SoftwareGpu, StaysBrokenOnceWorkHasFailed) {
  const Stream stream;
  const auto fail = [&] {
    cudaLaunchHostFunc(stream, [](void*) { throw std::runtime_error("made to fail"); }, nullptr);
    const bool fails = cudaStreamSynchronize(stream) == cudaErrorLaunchFailure;
    void* data = nullptr;
    const bool stays = cudaMalloc(&data, 1024) == cudaErrorLaunchFailure && cudaGetLastError() != cudaSuccess;
    if (!fails || !stays || cudaPeekAtLastError() != cudaErrorLaunchFailure) std::abort();
    std::exit(0);
  };
  EXPECT_EXIT(fail(), testing::ExitedWithCode(mistake), "made to fail");
}

TEST_F(SoftwareGpu, FindsAFunctionOfTheHostThatCallsCuda) {
  const Stream stream;
  const auto mistaken = [&] {
    cudaLaunchHostFunc(stream, [](void*) { cudaDeviceSynchronize(); }, nullptr);
    std::exit(cudaStreamSynchronize(stream) == cudaSuccess ? 0 : 1);
  };
  EXPECT_EXIT(mistaken(), testing::ExitedWithCode(mistake), "calls cudaDeviceSynchronize");
}

TEST_F(SoftwareGpu, CountsWaitsByTheirPlace) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "software_gpu_waits.json";
  const Stream stream;
  const auto wait_thrice = [&] {
    setenv("SOFTWARE_GPU_REPORT", path.c_str(), 1);
    for (int i = 0; i < 3; ++i) cudaStreamSynchronize(stream);
    std::exit(0);
  };
  EXPECT_EXIT(wait_thrice(), testing::ExitedWithCode(0), "");
  std::ostringstream report;
  report << std::ifstream(path).rdbuf();
  EXPECT_NE(report.str().find("{\"call\": \"cudaStreamSynchronize\", \"count\": 3"), std::string::npos) << report.str();
  EXPECT_NE(report.str().find("CountsWaitsByTheirPlace"), std::string::npos) << report.str();
  std::filesystem::remove(path);
}

// A function of NCCL, which other tests of this program do without.
template <typename Call>
Call of_nccl(const char* name) {
  return reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, name));
}

const auto nccl_send = of_nccl<decltype(&ncclSend)>("ncclSend");
const auto nccl_receive = of_nccl<decltype(&ncclRecv)>("ncclRecv");

class SoftwareNccl : public SoftwareGpu {
 protected:
  // A rank that is alone exchanges memory of 1,024 bytes on a GPU with itself, in one group of calls.
  static void expect_end(int code, const char* text,
                         const std::function<void(ncclComm_t, void* data, cudaStream_t)>& exchange) {
    const auto act = [&] {
      const Stream stream;
      void* data = nullptr;
      cudaMalloc(&data, 1024);
      ncclUniqueId id;
      ncclComm_t communicator = nullptr;
      of_nccl<decltype(&ncclGetUniqueId)>("ncclGetUniqueId")(&id);
      of_nccl<decltype(&ncclCommInitRank)>("ncclCommInitRank")(&communicator, 1, id, 0);
      of_nccl<decltype(&ncclGroupStart)>("ncclGroupStart")();
      exchange(communicator, data, stream);
      of_nccl<decltype(&ncclGroupEnd)>("ncclGroupEnd")();
      cudaStreamSynchronize(stream);
      of_nccl<decltype(&ncclCommDestroy)>("ncclCommDestroy")(communicator);
      cudaFree(data);
      std::exit(0);
    };
    EXPECT_EXIT(act(), testing::ExitedWithCode(code), text);
  }
};

TEST_F(SoftwareNccl, ExchangesWhatIsRight) {
  expect_end(0, "", [](ncclComm_t communicator, void* data, cudaStream_t stream) {
    nccl_send(data, 64, ncclFloat32, 0, communicator, stream);
    nccl_receive(static_cast<float*>(data) + 64, 64, ncclFloat32, 0, communicator, stream);
  });
}

TEST_F(SoftwareNccl, FindsSizesThatDiffer) {
  expect_end(mistake, "receives 128 bytes where the other sends 256",
             [](ncclComm_t communicator, void* data, cudaStream_t stream) {
               nccl_send(data, 64, ncclFloat32, 0, communicator, stream);
               nccl_receive(static_cast<float*>(data) + 64, 32, ncclFloat32, 0, communicator, stream);
             });
}

TEST_F(SoftwareNccl, FindsAnExchangeThatIsRecorded) {
  expect_end(mistake, "an exchange between ranks is recorded",
             [](ncclComm_t communicator, void* data, cudaStream_t stream) {
               cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
               const auto add = of_nccl<decltype(&ncclAllReduce)>("ncclAllReduce");
               add(data, data, 64, ncclFloat32, ncclSum, communicator, stream);
               cudaGraph_t graph = nullptr;
               cudaStreamEndCapture(stream, &graph);
             });
}

TEST_F(SoftwareNccl, FindsMemoryThatIsNotOfItsGpu) {
  expect_end(mistake, "not of its communicator's GPU", [](ncclComm_t communicator, void* data, cudaStream_t stream) {
    std::vector<float> on_host(64);
    nccl_send(on_host.data(), 64, ncclFloat32, 0, communicator, stream);
    nccl_receive(data, 64, ncclFloat32, 0, communicator, stream);
  });
}

}  // namespace
}  // namespace inkling
