#include <ATen/ops/empty_like.h>

#include "backend/cpu_backend.h"
#include "backend/elements.h"
#include "kernels/cpu_kernels.h"
#include "runtime/parallel.h"

namespace inkling::cpu {

at::Tensor conv(const at::Tensor& x, const Weight& weight, const at::Tensor& positions) {
  const at::Tensor in = x.contiguous(), out = at::empty_like(in), lines = in_float32(weight);
  const std::int64_t time = in.size(1), channels = in.size(2);
  parallel_parts(in.size(0) * time, 16, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    cpu_kernels().conv_forward(floats(in), floats(lines), elements<std::int64_t>(positions), floats(out), begin,
                               end - begin, time, channels, lines.size(0));
  });
  return out;
}

at::Tensor conv_backward(const at::Tensor& dout, const at::Tensor& x, const Weight& weight,
                         const at::Tensor& positions) {
  const at::Tensor dx = at::empty_like(dout);
  const std::int64_t time = x.size(1), channels = x.size(2), width = weight.value.size(0);
  float* const dweight = floats(weight.gradient_to_add_to());
  add_over_parts(
      x.size(0) * time, {dweight}, width * channels, [&](std::int64_t begin, std::int64_t end, float* const* sums) {
        cpu_kernels().conv_backward(floats(dout), floats(x), floats(weight.value), elements<std::int64_t>(positions),
                                    floats(dx), sums[0], begin, end - begin, time, channels, width);
      });
  return dx;
}

}  // namespace inkling::cpu
