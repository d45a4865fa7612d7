#include <ATen/ops/empty.h>

#include "backend/cuda_backend.h"
#include "backend/newton_schulz.h"

namespace inkling::cuda {

at::Tensor sum_of_squares(const at::Tensor& flat) {
  const at::Tensor parts = at::empty({square_parts}, flat.options().dtype(at::kDouble)), out = scratch(flat, 1);
  cuda_kernels<float>().sum_of_squares(floats(flat), flat.numel(), elements<double>(parts), floats(out),
                                       current_stream());
  return out;
}

void adamw(const AdamWRange& range, const at::Tensor& norm_squared) {
  const at::Tensor settings = range.settings.to(at::kFloat);  // float64 to what the kernel computes in
  with_kernels(range.compute.defined() ? range.compute : range.value, [&](const auto& kernels, auto element) {
    kernels.adamw(floats(range.value), floats(range.gradient), floats(range.moment1), floats(range.moment2),
                  elements<decltype(element)>(range.compute), reinterpret_cast<const AdamWStep*>(floats(settings)),
                  floats(norm_squared), range.value.numel(), current_stream());
  });
}

void muon(const MuonRange& range, const at::Tensor& norm_squared) {
  const at::Tensor settings = range.settings.to(at::kFloat);  // float64 to what the kernels compute in
  const std::int64_t n = range.value.numel();
  with_kernels(range.memory.update, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    const auto* const step = reinterpret_cast<const MuonStep*>(floats(settings));
    Element* const update = elements<Element>(range.memory.update);
    kernels.muon_momentum(floats(range.momentum), floats(range.gradient), update, step, floats(norm_squared), n,
                          current_stream());
    orthogonalize(range);
    kernels.muon_step(floats(range.value), update, elements<Element>(range.compute), step, floats(norm_squared), n,
                      current_stream());
  });
}

}  // namespace inkling::cuda
