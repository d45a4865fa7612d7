// Copies numbers between the host and tensors on a device, beside what the device computes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace inkling {

// Fills the same tensors again and again. On a GPU the host writes to pinned memory, which is copied on a stream of its
// own. The current stream waits for the copy; the host waits only where it is four fills ahead. On the CPU the host
// writes to the tensors themselves.
class Upload {
 public:
  using Tensors = std::vector<at::Tensor>;

  explicit Upload(const Tensors& targets);

  // Calls fill(tensors), which writes to tensors on the CPU that have the targets' shapes and dtypes.
  void operator()(const std::function<void(const Tensors& tensors)>& fill);

 private:
  struct Slot {
    Tensors pinned, device;
    c10::Event arrived, used;
  };

  Tensors targets_;
  std::optional<c10::Stream> copies_;  // none on the CPU
  std::vector<Slot> slots_;
  std::size_t next_slot_ = 0;
};

// Copies numbers to the host. Two copies may be under way: the host reads one while the device is ahead with the next.
class Download {
 public:
  class Copy {
   public:
    // Waits until the numbers have arrived. They are valid until two more copies are queued.
    std::span<const std::int64_t> wait();

   private:
    friend class Download;
    at::Tensor pinned_;
    std::int64_t count_ = 0;
    std::optional<c10::Event> arrived_;  // none on the CPU
  };

  // Each copy has at most `max_count` int64 numbers, from `device`.
  Download(std::int64_t max_count, at::Device device);

  // Queues a copy of `numbers`, int64 [n].
  Copy& queue(const at::Tensor& numbers);

 private:
  std::array<Copy, 2> copies_;
  std::size_t next_ = 0;
};

}  // namespace inkling
