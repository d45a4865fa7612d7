#include "generate/recorded_decoder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "model/model.h"

namespace inkling {
namespace {

constexpr int recorded_family = 2;

}  // namespace

RecordedDecoder::RecordedDecoder(const Model& model, const at::TensorOptions& cache_options,
                                 const DecoderSettings& settings)
    : model_(model),
      settings_(settings),
      cached_(model, settings.max_rows, settings.longest, cache_options),
      drawn_(settings.max_rows, cache_options.device()) {
  const auto whole = cache_options.dtype(at::kLong);
  for (at::Tensor* const numbers : {&all_.random, &all_.places, &all_.tokens, &all_.drawn}) {
    *numbers = at::zeros({settings.max_rows}, whole);
  }
  all_.contexts = at::zeros({settings.max_rows, std::min(model.shape().block_size, settings.longest)}, whole);
}

// Returns a row of DrawState::contexts.
std::vector<std::int64_t> RecordedDecoder::penalized_ring(std::span<const Token> text) const {
  const std::span<const Token> context = context_of(text, model_.shape());
  std::vector<std::int64_t> ring(static_cast<std::size_t>(all_.contexts.size(1)));
  for (std::size_t i = context.size() - std::min(context.size(), ring.size()); i < context.size(); ++i) {
    ring[i % ring.size()] = static_cast<std::int64_t>(context[i]);
  }
  return ring;
}

// Writes the state of these texts to the device, which does not have them in this order, or not at all.
void RecordedDecoder::begin(std::span<const GrowingText> texts) {
  const at::Device device = all_.tokens.device();
  std::vector<std::span<const Token>> contents;
  for (const GrowingText& text : texts) contents.push_back(text.tokens);
  for (const std::size_t row : cached_.stale_rows(contents)) cached_.prefill(row, contents[row]);
  std::vector<std::int64_t> tokens, random, places, lengths;
  for (std::size_t row = 0; row < texts.size(); ++row) {
    const std::span<const Token> text = texts[row].tokens;
    // Anew, because a step that was ahead has written into it.
    all_.contexts.select(0, static_cast<std::int64_t>(row)).copy_(to_device(penalized_ring(text), device));
    tokens.push_back(text.back());
    random.push_back(static_cast<std::int64_t>(texts[row].random));
    places.push_back(static_cast<std::int64_t>(text.size()));
    lengths.push_back(static_cast<std::int64_t>(cached_.length(row)));  // a step that was ahead has added to them
  }
  const auto put = [&](const std::vector<std::int64_t>& values, const at::Tensor& to) {
    to.narrow(0, 0, static_cast<std::int64_t>(values.size())).copy_(to_device(values, device));
  };
  put(tokens, all_.tokens);
  put(random, all_.random);
  put(places, all_.places);
  put(lengths, cached_.all().lengths);
}

// Adds a token to the first `rows` texts. Everything that differs from step to step is read from tensors.
void RecordedDecoder::step(std::int64_t rows) {
  const auto first = [rows](const at::Tensor& all) { return all.narrow(0, 0, rows); };
  KeyValueCache cache = cached_.all();
  const at::Tensor logits = model_.decode(first(all_.tokens), cache);
  const DrawState state = {.contexts = first(all_.contexts),
                           .lengths = cache.lengths,
                           .random = first(all_.random),
                           .places = first(all_.places),
                           .tokens = first(all_.tokens),
                           .drawn = first(all_.drawn)};
  model_.backend().draw(logits, state, settings_.sampling, static_cast<std::int64_t>(settings_.vocab_size));
}

Download::Copy& RecordedDecoder::queue() {
  const auto rows = static_cast<std::int64_t>(cached_.count());
  const auto [found, is_new] =
      steps_.try_emplace(rows, model_.backend(), recorded_family, [this, rows] { step(rows); });
  found->second();
  return drawn_.queue(all_.drawn.narrow(0, 0, rows));
}

std::vector<Token> RecordedDecoder::next(std::span<const GrowingText> texts) {
  cached_.check_texts(texts.size());
  const at::NoGradGuard no_gradient;
  if (texts.size() > cached_.count()) ahead_ = nullptr;
  if (ahead_ == nullptr) {
    begin(texts);
    ahead_ = &queue();
  }
  Download::Copy& draw = *ahead_;
  cached_.grow();
  const bool endless = model_.shape().is_endless();
  bool any_full = false;  // then a context must be encoded anew, with a token that the host does not know yet
  for (std::size_t row = 0; row < texts.size(); ++row) {
    any_full = any_full || (!endless && static_cast<std::int64_t>(cached_.length(row)) == model_.shape().block_size);
  }
  ahead_ = any_full ? nullptr : &queue();
  std::vector<Token> drawn;
  for (const std::int64_t token : draw.wait()) {
    if (token < 0) refuse_broken_answer();
    drawn.push_back(static_cast<Token>(token));
  }
  return drawn;
}

void RecordedDecoder::remove(std::size_t row) {
  ahead_ = nullptr;
  cached_.remove(row);
}

}  // namespace inkling
