#include "runtime/transfer.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace inkling {
namespace {

constexpr std::size_t slot_count = 4;

void copy(const Upload::Tensors& from, const Upload::Tensors& to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i], true);
}

}  // namespace

Upload::Upload(const Tensors& targets) : targets_(targets) {
  const at::Device device = targets.front().device();
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl gpu(device.type());
  copies_ = gpu.getStreamFromGlobalPool(device);
  for (std::size_t i = 0; i < slot_count; ++i) {
    Slot slot = {.pinned = {}, .device = {}, .arrived = c10::Event(device.type()), .used = c10::Event(device.type())};
    for (const at::Tensor& target : targets) {
      slot.pinned.push_back(at::zeros(target.sizes(), target.options().device(at::kCPU).pinned_memory(true)));
      slot.device.push_back(at::empty_like(target));
    }
    slot.used.record(gpu.getStream(device));
    slots_.push_back(std::move(slot));
  }
}

void Upload::operator()(const std::function<void(const Tensors& tensors)>& fill) {
  if (!copies_) return fill(targets_);
  Slot& slot = slots_[next_slot_++ % slots_.size()];
  slot.arrived.synchronize();  // the copy of slot_count fills ago
  fill(slot.pinned);
  const c10::Stream current = c10::impl::VirtualGuardImpl(copies_->device_type()).getStream(copies_->device());
  slot.used.block(*copies_);
  {
    const c10::StreamGuard on_copies(*copies_);
    copy(slot.pinned, slot.device);
    slot.arrived.record(*copies_);
  }
  slot.arrived.block(current);
  copy(slot.device, targets_);
  slot.used.record(current);
}

std::span<const std::int64_t> Download::Copy::wait() {
  if (arrived_) arrived_->synchronize();
  return {pinned_.data_ptr<std::int64_t>(), static_cast<std::size_t>(count_)};
}

Download::Download(std::int64_t max_count, at::Device device) {
  for (Copy& copy : copies_) {
    copy.pinned_ = at::zeros({max_count}, at::TensorOptions().dtype(at::kLong).pinned_memory(!device.is_cpu()));
    if (!device.is_cpu()) copy.arrived_.emplace(device.type());
  }
}

Download::Copy& Download::queue(const at::Tensor& numbers) {
  Copy& copy = copies_[next_++ % copies_.size()];
  copy.count_ = numbers.size(0);
  copy.pinned_.narrow(0, 0, copy.count_).copy_(numbers, true);
  const at::Device device = numbers.device();
  if (copy.arrived_) copy.arrived_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return copy;
}

}  // namespace inkling
