// Numbers on their way between the host and tensors on a device.
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

// Fills the same tensors again and again. On a GPU what the host writes waits in pinned memory and is copied on a
// stream of its own, beside what the GPU computes: the current stream waits for it, the host only where it is four
// fills ahead. On the CPU the host writes to the tensors themselves.
class Upload {
 public:
  using Tensors = std::vector<at::Tensor>;

  explicit Upload(const Tensors& targets);

  // fill(tensors) writes to tensors on the CPU of the targets' shapes and dtypes.
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

// Two copies may be under way at a time: the host reads one while the device is ahead with the next.
class Download {
 public:
  class Copy {
   public:
    // Waits until the numbers are here. They stay until two more copies are queued.
    std::span<const std::int64_t> wait();

   private:
    friend class Download;
    at::Tensor pinned_;
    std::int64_t count_ = 0;
    std::optional<c10::Event> arrived_;  // none on the CPU
  };

  // Of at most `max_count` int64 numbers each, from `device`.
  Download(std::int64_t max_count, at::Device device);

  // Queues a copy of `numbers`, int64 [n].
  Copy& queue(const at::Tensor& numbers);

 private:
  std::array<Copy, 2> copies_;
  std::size_t next_ = 0;
};

}  // namespace inkling
