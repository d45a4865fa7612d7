#include "generate/decoder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/random.h"
#include "generate/recorded_decoder.h"
#include "runtime/device.h"

namespace inkling {
namespace {

constexpr std::int64_t max_rows_together = 16;
constexpr std::int64_t cache_bytes_on_cpu = std::int64_t{512} << 20;
constexpr std::int64_t bytes_of_small_model = std::int64_t{8} << 20;

// Whether each thread takes whole texts.
bool shares_out_texts(const Model& model, const Runtime& runtime) {
  const ParameterLayout layout(gpt_parameters(model.shape()));
  const auto bytes = layout.size() * static_cast<std::int64_t>(c10::elementSize(runtime.dtype));
  return computes_with_threads(runtime.device) && bytes <= bytes_of_small_model;
}

class EagerDecoder final : public Decoder {
 public:
  EagerDecoder(const Model& model, const Runtime& runtime, const DecoderSettings& settings)
      : shape_(model.shape()),
        settings_(settings),
        logits_(model, runtime, settings.max_rows, settings.cache, settings.longest) {}

  std::vector<Token> next(std::span<const GrowingText> texts) override {
    std::vector<std::span<const Token>> tokens;
    for (const GrowingText& text : texts) tokens.push_back(text.tokens);
    const at::Tensor logits = logits_(tokens);
    RECORD_FUNCTION("sample_token", std::vector<c10::IValue>());
    std::vector<Token> drawn;
    const float* row = logits.data_ptr<float>();
    for (const GrowingText& text : texts) {
      drawn.push_back(sample_token({row, static_cast<std::size_t>(settings_.vocab_size)},
                                   penalized_tokens(text.tokens, shape_), settings_.sampling,
                                   random_unit(text.random, text.tokens.size())));
      row += logits.size(1);
    }
    return drawn;
  }

  void remove(std::size_t row) override { logits_.remove(row); }

 private:
  GptShape shape_;
  DecoderSettings settings_;
  EagerLogits logits_;
};

at::TensorOptions cache_options(const Model& model, const Runtime& runtime) {
  return at::TensorOptions().device(runtime.device).dtype(model.backend().activation_dtype(runtime.dtype));
}

template <typename Number>
at::Tensor copied(std::span<const Number> numbers, at::Device device) {
  const at::Tensor host = at::empty({static_cast<std::int64_t>(numbers.size())}, at::kLong);
  std::copy(numbers.begin(), numbers.end(), host.data_ptr<std::int64_t>());
  return host.to(device);
}

}  // namespace

std::unique_ptr<Decoder> make_decoder(const Model& model, const Runtime& runtime, const DecoderSettings& settings) {
  if (settings.cache && model.backend().record != nullptr) {
    return std::make_unique<RecordedDecoder>(model, cache_options(model, runtime), settings);
  }
  return std::make_unique<EagerDecoder>(model, runtime, settings);
}

std::int64_t cache_row_bytes(const Model& model, const Runtime& runtime, std::int64_t longest) {
  const GptShape& shape = model.shape();
  const auto element = static_cast<std::int64_t>(cache_options(model, runtime).dtype().itemsize());
  std::int64_t positions = 0;  // in all layers
  for (const AttentionPattern& pattern : shape.layer_patterns()) {
    positions += pattern.capacity(longest_context(shape, longest));
  }
  const std::int64_t conv_inputs = 2 * shape.n_layer * shape.conv * shape.n_embd;
  return (2 * shape.attention().keys() * positions + conv_inputs) * element;
}

std::int64_t rows_together(const Model& model, const Runtime& runtime, std::int64_t longest, std::int64_t cache_bytes) {
  if (!model.backend().rows_are_independent) return 1;
  return std::clamp<std::int64_t>(cache_bytes / cache_row_bytes(model, runtime, longest), 1, max_rows_together);
}

std::int64_t cache_bytes(at::Device device) {
  const auto memory = device_memory(device);
  return memory ? static_cast<std::int64_t>(memory->free / 2) : cache_bytes_on_cpu;
}

EagerLogits::EagerLogits(const Model& model, const Runtime& runtime, std::int64_t max_rows, bool use_cache,
                         std::int64_t longest)
    : model_(model), device_(runtime.device) {
  if (use_cache) cached_.emplace(model, max_rows, longest, cache_options(model, runtime));
  const auto most = static_cast<int>(std::min<std::int64_t>(runtime.threads, max_rows));
  if (shares_out_texts(model, runtime)) workers_.emplace(most);
}

at::Tensor EagerLogits::decode(std::span<const Token> last_tokens) {
  const at::Tensor tokens = to_device(last_tokens, device_);
  KeyValueCache cache = cached_->all();
  if (!workers_) return model_.decode(tokens, cache);
  std::vector<at::Tensor> logits(static_cast<std::size_t>(workers_->count()));
  workers_->run([&](int worker) {
    const auto [begin, end] = part_of(tokens.size(0), worker, workers_->count());
    if (begin == end) return;
    KeyValueCache own = cache.narrow(begin, end - begin);
    logits[static_cast<std::size_t>(worker)] = model_.decode(tokens.narrow(0, begin, end - begin), own);
  });
  std::erase_if(logits, [](const at::Tensor& rows) { return !rows.defined(); });
  return logits.size() == 1 ? logits.front() : at::cat(logits);
}

at::Tensor EagerLogits::uncached(std::span<const Token> text) const {
  const std::span<const Token> context = context_of(text, model_.shape());
  const at::Tensor tokens = to_device(context, device_);
  return model_.logits(tokens.unsqueeze(0)).select(1, tokens.size(0) - 1);
}

at::Tensor EagerLogits::operator()(std::span<const std::span<const Token>> texts) {
  const at::NoGradGuard no_gradient;
  at::Tensor logits;
  if (cached_) {
    cached_->check_texts(texts.size());
    const std::vector<std::size_t> stale = cached_->stale_rows(texts);
    for_each(workers_, static_cast<std::int64_t>(stale.size()), [&](std::int64_t i, int) {
      const std::size_t row = stale[static_cast<std::size_t>(i)];
      cached_->prefill(row, texts[row]);
    });
    std::vector<Token> last_tokens;
    for (const std::span<const Token> text : texts) last_tokens.push_back(text.back());
    logits = decode(last_tokens);
    cached_->grow();
  } else {
    std::vector<at::Tensor> rows(texts.size());
    for_each(workers_, static_cast<std::int64_t>(texts.size()), [&](std::int64_t i, int) {
      rows[static_cast<std::size_t>(i)] = uncached(texts[static_cast<std::size_t>(i)]);
    });
    logits = at::cat(rows, 0);
  }
  return logits.to(at::kCPU).to(at::kFloat).contiguous();  // bfloat16 ends here: sampling is done in double
}

void EagerLogits::remove(std::size_t row) {
  if (cached_) cached_->remove(row);
}

at::Tensor to_device(std::span<const std::int64_t> numbers, at::Device device) { return copied(numbers, device); }
at::Tensor to_device(std::span<const Token> tokens, at::Device device) { return copied(tokens, device); }

std::uint64_t context_start(std::uint64_t length, std::uint64_t block_size) {
  if (length <= block_size) return 0;
  const std::uint64_t stride = block_size + 1 - std::max<std::uint64_t>(1, block_size / 2);
  return (length - block_size + stride - 1) / stride * stride;
}

std::span<const Token> context_of(std::span<const Token> text, const GptShape& shape) {
  if (shape.is_endless()) return text;
  return text.subspan(context_start(text.size(), static_cast<std::uint64_t>(shape.block_size)));
}

std::span<const Token> penalized_tokens(std::span<const Token> text, const GptShape& shape) {
  const std::span<const Token> context = context_of(text, shape);
  return context.last(std::min(context.size(), static_cast<std::size_t>(shape.block_size)));
}

std::int64_t longest_context(const GptShape& shape, std::int64_t longest) {
  return shape.is_endless() ? longest : std::min(shape.block_size, longest);
}

CachedTexts::CachedTexts(const Model& model, std::int64_t max_rows, std::int64_t longest,
                         const at::TensorOptions& options)
    : model_(model), cache_(model.shape(), max_rows, longest_context(model.shape(), longest), options) {}

CachedTexts::Held CachedTexts::wanted(std::span<const Token> text) const {
  const std::span<const Token> context = context_of(text, model_.shape());
  return {.start = text.size() - context.size(), .length = context.size() - 1};
}

std::vector<std::size_t> CachedTexts::stale_rows(std::span<const std::span<const Token>> texts) {
  held_.resize(std::max(texts.size(), held_.size()));
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < texts.size(); ++row) {
    if (held_[row] != wanted(texts[row])) rows.push_back(row);
  }
  return rows;
}

void CachedTexts::prefill(std::size_t row, std::span<const Token> text) {
  held_[row] = wanted(text);
  const std::uint64_t length = held_[row].length;
  KeyValueCache cache = only(row);
  cache.lengths.zero_();
  if (length == 0) return;
  const at::Device device = cache.lengths.device();
  const std::array lengths = {static_cast<std::int64_t>(length)};
  const std::span<const Token> context = context_of(text, model_.shape()).first(length);
  model_.prefill(to_device(context, device).unsqueeze(0), to_device(lengths, device), cache);
}

void CachedTexts::check_texts(std::size_t texts) const {
  if (texts > 0 && texts >= count() && texts <= static_cast<std::size_t>(cache_.rows())) return;
  throw Error::internal("the decoder was given another number of texts than it has rows");
}

void CachedTexts::grow() {
  for (Held& held : held_) ++held.length;
}

void CachedTexts::remove(std::size_t row) {
  const std::size_t last = held_.size() - 1;
  if (row != last) {
    only(row).copy_from(only(last));
    held_[row] = held_[last];
  }
  held_.pop_back();
}

}  // namespace inkling
