// What an evaluation must come to, computed by the reference model one text at a time.
#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>

#include <numeric>
#include <vector>

#include "base/random.h"
#include "formats/token_file.h"
#include "tests/model/small_model.h"

namespace inkling::test {

inline std::vector<Token> random_tokens(std::size_t count, std::uint64_t vocabulary) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<Token>(random_below(9, i, vocabulary)));
  return tokens;
}

// -log p of each of tokens[1..], given those before it, from the reference model's logits, in double.
inline std::vector<double> nats_of_each(const GptShape& shape, const ParameterArena& arena,
                                        const std::vector<Token>& tokens) {
  const at::NoGradGuard no_gradient;
  const auto length = static_cast<std::int64_t>(tokens.size()) - 1;
  const at::Tensor in = at::empty({1, length}, at::kLong);
  for (std::int64_t i = 0; i < length; ++i) in[0][i] = static_cast<std::int64_t>(tokens[static_cast<std::size_t>(i)]);
  const auto judge = make_model(shape, arena, {.kernels = Kernels::reference});
  const at::Tensor log_p = at::log_softmax(judge->logits(in)[0].to(at::kDouble), -1);
  std::vector<double> nats;
  for (std::int64_t i = 0; i < length; ++i) {
    nats.push_back(-log_p[i][static_cast<std::int64_t>(tokens[static_cast<std::size_t>(i + 1)])].item<double>());
  }
  return nats;
}

// Their sum, but for those of the first `given` tokens.
inline double nats_by_hand(const GptShape& shape, const ParameterArena& arena, const std::vector<Token>& tokens,
                           std::size_t given = 1) {
  const std::vector<double> nats = nats_of_each(shape, arena, tokens);
  return std::accumulate(nats.begin() + static_cast<std::ptrdiff_t>(given) - 1, nats.end(), 0.0);
}

// The same for a text that is longer than the block, each token alone: the window that scores it is the first one that
// holds it, and windows begin at the multiples of `stride`.
inline double nats_by_strides(const GptShape& shape, const ParameterArena& arena, const std::vector<Token>& tokens,
                              std::size_t stride) {
  const auto block = static_cast<std::size_t>(shape.block_size);
  double nats = 0;
  for (std::size_t target = 1; target < tokens.size(); ++target) {
    std::size_t begin = 0;
    while (target - begin > block) begin += stride;
    const auto at = [&](std::size_t i) { return tokens.begin() + static_cast<std::ptrdiff_t>(i); };
    nats += nats_of_each(shape, arena, {at(begin), at(target + 1)}).back();
  }
  return nats;
}

}  // namespace inkling::test
