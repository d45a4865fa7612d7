// What moves tensors between the GPUs of ranks: LibTorch's c10d over NCCL.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <utility>
#include <vector>

#include "runtime/ranks.h"

namespace inkling::cuda {
namespace {

GpuGroup meet(const GpuMeeting& meeting) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = meeting.longest_work;
  auto store = c10::make_intrusive<c10d::PrefixStore>(
      "nccl", c10::intrusive_ptr<c10d::Store>::unsafe_reclaim_from_nonowning(&meeting.store));
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(std::move(store), meeting.rank, meeting.ranks, options);
  group->setBoundDeviceId(meeting.device);
  group->eagerConnectSingleDevice(meeting.device);
  return {.exchange = [group](at::Tensor out, std::vector<std::int64_t> counts_out, at::Tensor in,
                              std::vector<std::int64_t> counts_in) -> Transfer {
            auto work = group->alltoall_base(out, in, counts_out, counts_in);
            return [work = std::move(work), out, in] { work->wait(); };
          },
          .add =
              [group](at::Tensor numbers) {
                std::vector<at::Tensor> tensors = {std::move(numbers)};
                group->allreduce(tensors)->wait();
              }};
}

}  // namespace
}  // namespace inkling::cuda

extern "C" __attribute__((visibility("default"))) void inkling_cuda_ranks(const inkling::GpuMeeting& meeting,
                                                                          inkling::GpuGroup& group) {
  group = inkling::cuda::meet(meeting);
}
