#include "generate/decoder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <vector>

#include "generate/context_rule.h"

namespace inkling {
namespace {

constexpr std::int64_t most_rows = 16;
constexpr std::int64_t cache_bytes_on_cpu = std::int64_t{512} << 20;

}  // namespace

Decoder::Decoder(const Gpt& model, const Runtime& runtime, std::int64_t max_rows, bool use_cache)
    : model_(model), runtime_(runtime) {
  if (use_cache) rows_.emplace(model, runtime, max_rows);
}

std::int64_t Decoder::rows_together(const GptShape& shape, const Runtime& runtime, std::int64_t cache_bytes) {
  if (runtime.kernels == Kernels::reference) return 1;
  const auto element = static_cast<std::int64_t>(c10::elementSize(runtime.activation_dtype()));
  const std::int64_t row_bytes = 2 * shape.n_layer * shape.n_embd * shape.block_size * element;
  return std::clamp<std::int64_t>(cache_bytes / row_bytes, 1, most_rows);
}

std::int64_t Decoder::cache_bytes(at::Device device) {
  if (device.is_cpu()) return cache_bytes_on_cpu;
  return static_cast<std::int64_t>(c10::getDeviceAllocator(device.type())->getMemoryInfo(device.index()).first / 2);
}

at::Tensor Decoder::uncached_logits(std::span<const Token> text) const {
  const std::span<const Token> context = context_of(text, model_.shape().block_size);
  Context pass{.kernels = runtime_.kernels};
  const at::Tensor tokens = to_device(context, runtime_.device);
  return model_.logits(tokens.unsqueeze(0), pass).select(1, tokens.size(0) - 1);
}

at::Tensor Decoder::next_logits(std::span<const std::span<const Token>> texts) {
  const at::NoGradGuard no_gradient;
  at::Tensor logits;
  if (rows_) {
    rows_->check_texts(texts.size());
    std::vector<Token> last_tokens;
    for (std::size_t row = 0; row < texts.size(); ++row) {
      rows_->hold_all_but_last(row, texts[row]);
      last_tokens.push_back(texts[row].back());
    }
    KeyValueCache cache = rows_->all();
    Context pass{.kernels = runtime_.kernels, .decoding = true};
    logits = model_.decode(to_device(last_tokens, runtime_.device), cache, pass);
    rows_->grow();
  } else {
    std::vector<at::Tensor> rows;
    for (const std::span<const Token> text : texts) rows.push_back(uncached_logits(text));
    logits = at::cat(rows, 0);
  }
  return logits.to(at::kCPU).to(at::kFloat).contiguous();  // bfloat16 ends here: sampling is done in double
}

void Decoder::remove(std::size_t row) {
  if (rows_) rows_->remove(row);
}

}  // namespace inkling
