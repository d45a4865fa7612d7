#include "backend/cpu/backend.h"
#include "backend/elements.h"
#include "kernels/cpu_kernels.h"
#include "runtime/parallel.h"

namespace inkling::cpu {

at::Tensor dropout(const at::Tensor& x, const DropoutPlace& place) {
  const at::Tensor out = x.clone(at::MemoryFormat::Contiguous);
  const std::uint64_t key = dropout_stream(place);
  parallel_parts(out.numel(), 4096, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    cpu_kernels().dropout(floats(out) + begin, key, static_cast<std::uint64_t>(begin),
                          dropout_threshold(place.probability), dropout_scale(place.probability), end - begin);
  });
  return out;
}

}  // namespace inkling::cpu
