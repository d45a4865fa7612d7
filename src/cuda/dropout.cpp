#include "backend/elements.h"

#include <ATen/ops/empty_like.h>

#include "cuda/backend.h"
#include "cuda/kernels_of.h"

namespace inkling::cuda {

at::Tensor dropout(const at::Tensor& x, const DropoutPlace& place) {
  const at::Tensor in = x.contiguous();
  const at::Tensor out = at::empty_like(in);
  with_kernels(in, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.dropout(elements<Element>(in), elements<Element>(out), elements<std::uint64_t>(place.key), place.place,
                    dropout_threshold(place.probability), dropout_scale(place.probability), in.numel(),
                    current_stream());
  });
  return out;
}

}  // namespace inkling::cuda
