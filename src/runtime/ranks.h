// What the ranks that train one model together tell each other, by LibTorch's c10d: a store in which they find each
// other, and gloo between them.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/rank_place.h"

namespace c10d {
class Store;
}

namespace inkling {

// A transfer that goes on while others work; to be waited for in the order in which they were begun.
using Transfer = std::function<void()>;

// What moves tensors between the GPUs of ranks: NCCL, which libinkling_cuda.so brings (backend/choose.h). Both are
// queued on the current stream.
struct GpuGroup {
  std::function<Transfer(at::Tensor out, std::vector<std::int64_t> counts_out, at::Tensor in,
                         std::vector<std::int64_t> counts_in)>
      exchange;
  std::function<void(at::Tensor numbers)> add;
};

// Where its members meet.
struct GpuMeeting {
  c10d::Store& store;
  int rank, ranks;
  std::chrono::milliseconds longest_work;
  at::Device device;
};

// The ranks, as one of them sees them: a handle, of which copies mean the same. All of them call the same functions in
// the same order. Whatever a rank is doing: when another one is gone, or has been silent for the timeout, it says "lost
// contact with rank 2 (host, process 4711) in step 41; …" and ends with exit code 3. A rank that ends by itself takes
// leave of the others when its last handle goes.
class Ranks {
 public:
  Ranks() = default;  // this process alone, which need not be told anything

  // Returns when all of them are there. Throws Error environment naming those that have not come within the timeout,
  // or what keeps this one from reaching rank 0.
  Ranks(const RankPlace& place, std::chrono::milliseconds timeout);

  int rank() const { return place_.rank; }
  int count() const { return place_.ranks; }
  bool is_first() const { return place_.rank == 0; }
  bool is_alone() const { return group_ == nullptr; }

  // Returns "rank 2 (host, process 4711)".
  std::string name_of(int rank) const;

  // What is said behind "lost contact with …" from then on: " in step 41; …".
  void note(std::string whereabouts) const;

  // The ranks meet on their GPUs, by what `meet` makes.
  void meet_on_gpus(at::Device device, const std::function<GpuGroup(const GpuMeeting&)>& meet) const;

  // Sends counts_in[k] elements of `in`, one part behind the other, to rank k, and writes what comes from rank j,
  // counts_out[j] elements, one behind the other into `out`. Both are flat and of one dtype, on the CPU, or on the GPU
  // where the ranks have met.
  Transfer exchange(at::Tensor out, std::vector<std::int64_t> counts_out, at::Tensor in,
                    std::vector<std::int64_t> counts_in) const;

  // Each number becomes the sum over all ranks, of which at most one has another than 0: so it has that one's bits.
  void add(std::span<double> numbers) const;
  // The same, and whether any rank says yes.
  bool add(std::vector<double>& numbers, bool yes) const;
  void add(const at::Tensor& numbers) const;  // float64, flat; queued on a GPU

  // Returns the least of what the ranks have come to.
  std::int64_t least(std::int64_t number) const;

  // Returns what each rank has said, in order.
  std::vector<std::string> gather(const std::string& said) const;

  // Rank 0 works, however long it takes, while the others wait. Where it throws, the others throw an Error of the same
  // kind.
  void first_alone(const std::function<void()>& work) const;

  // The same for work that all have to do, the others once rank 0 has done it. Where one throws an Error, it throws
  // that itself, and the others one of the same kind that names it.
  void first_then_others(const std::function<void()>& work) const;

 private:
  struct Group;
  RankPlace place_;
  std::shared_ptr<Group> group_;
};

// Writes the message of a rank that ends with an error where torchrun looks for it, if torchrun has started it.
void tell_launcher(const std::string& message);

// Returns this process's, by its environment, when all are there. Of those but rank 0 only errors are shown from then
// on. timeout: seconds. Throws what find_rank_place() and Ranks throw.
Ranks join_ranks(double timeout);

}  // namespace inkling
