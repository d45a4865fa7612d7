// The output head: vocabulary projection, softmax and cross-entropy.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/context.h"

namespace inkling {

inline constexpr std::int64_t not_scored = -1;  // a target that does not count

// The mean over scored targets of -log softmax(x table^T)[target], in nats: a scalar float32.
// x: [..., C]; table: [V, C], the token embedding again (tied); targets: int64, one per row of x, below V or
// not_scored. At least one target must be scored.
at::Tensor head_cross_entropy(const at::Tensor& x, const Weight& table, const at::Tensor& targets,
                              const Context& context);

// x table^T: [..., C] -> [..., V]. No gradient for the fused form.
at::Tensor head_logits(const at::Tensor& x, const Weight& table, const Context& context);

}  // namespace inkling
