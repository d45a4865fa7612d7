#include <ATen/ops/empty_like.h>

#include "backend/cuda_backend.h"

namespace inkling::cuda {

at::Tensor conv(const at::Tensor& x, const Weight& weight, const at::Tensor& positions) {
  const at::Tensor in = x.contiguous(), out = at::empty_like(in);
  with_kernels(in, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.conv_forward(elements<Element>(in), elements<Element>(weight.value), elements<std::int64_t>(positions),
                         elements<Element>(out), in.size(0) * in.size(1), in.size(1), in.size(2), weight.value.size(0),
                         current_stream());
  });
  return out;
}

at::Tensor conv_backward(const at::Tensor& dout, const at::Tensor& x, const Weight& weight,
                         const at::Tensor& positions) {
  const at::Tensor dx = at::empty_like(dout);
  const std::int64_t channels = x.size(2), width = weight.value.size(0);
  float* const dweight = floats(weight.gradient_to_add_to());
  with_kernels(x, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.conv_backward(elements<Element>(dout), elements<Element>(x), elements<Element>(weight.value),
                          elements<std::int64_t>(positions), elements<Element>(dx), dweight,
                          floats(scratch(x, column_scratch(width * channels))), x.size(0) * x.size(1), x.size(1),
                          channels, width, current_stream());
  });
  return dx;
}

at::Tensor conv_cached(const at::Tensor& x, const at::Tensor& inputs, const Weight& weight, const at::Tensor& lengths) {
  const at::Tensor out = at::empty_like(x);
  with_kernels(x, [&](const auto& kernels, auto element) {
    using Element = decltype(element);
    kernels.conv_cached(elements<Element>(x), elements<Element>(inputs), elements<Element>(weight.value),
                        elements<std::int64_t>(lengths), elements<Element>(out), x.size(0), x.size(-1),
                        weight.value.size(0), current_stream());
  });
  return out;
}

}  // namespace inkling::cuda
