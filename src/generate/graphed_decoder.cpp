#include "generate/graphed_decoder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "generate/context_rule.h"

namespace inkling {
namespace {

constexpr int graph_family = 2;

}  // namespace

bool GraphedDecoder::possible(const Runtime& runtime) {
  return runtime.kernels == Kernels::fused && cuda_library(at::empty({0}, runtime.device)) != nullptr;
}

GraphedDecoder::GraphedDecoder(const Gpt& model, const Runtime& runtime, const TokenSourceSettings& settings)
    : model_(model),
      device_(runtime.device),
      cuda_(*cuda_library(at::empty({0}, runtime.device))),
      settings_(settings),
      rows_(model, runtime, settings.max_rows),
      graphs_(static_cast<std::size_t>(settings.max_rows) + 1) {
  const auto options = at::TensorOptions().dtype(at::kLong);
  for (at::Tensor* const numbers : {&tokens_, &random_, &places_, &drawn_}) {
    *numbers = at::zeros({settings.max_rows}, options.device(device_));
  }
  contexts_ = at::zeros({settings.max_rows, model.shape().block_size}, options.device(device_));
  for (Draw& draw : draws_) {
    draw.tokens = at::zeros({settings.max_rows}, options.pinned_memory(device_.is_cuda()));
    if (device_.is_cuda()) draw.arrived.emplace(device_.type());
  }
}

// The device's state for texts that it does not have in this order, or not at all.
void GraphedDecoder::begin(std::span<const GrowingText> texts) {
  std::vector<std::int64_t> tokens, random, places, lengths;
  for (std::size_t row = 0; row < texts.size(); ++row) {
    const std::span<const Token> text = texts[row].tokens;
    if (rows_.hold_all_but_last(row, text)) {
      const std::span<const Token> context = context_of(text, model_.shape().block_size);
      contexts_.select(0, static_cast<std::int64_t>(row))
          .narrow(0, 0, static_cast<std::int64_t>(context.size()))
          .copy_(to_device(context, device_));
    }
    tokens.push_back(text.back());
    random.push_back(static_cast<std::int64_t>(texts[row].random));
    places.push_back(static_cast<std::int64_t>(text.size()));
    lengths.push_back(static_cast<std::int64_t>(rows_.length(row)));  // a step that was ahead has added to them
  }
  const auto put = [&](const std::vector<std::int64_t>& values, const at::Tensor& to) {
    to.narrow(0, 0, static_cast<std::int64_t>(values.size())).copy_(to_device(values, device_));
  };
  put(tokens, tokens_);
  put(random, random_);
  put(places, places_);
  put(lengths, rows_.all().lengths);
}

// One more token for the first `rows` texts. Everything that differs from step to step is read from tensors.
void GraphedDecoder::step(std::int64_t rows) {
  KeyValueCache cache = rows_.all();
  Context pass{.kernels = Kernels::fused, .decoding = true};
  const at::Tensor logits = model_.decode(tokens_.narrow(0, 0, rows), cache, pass);
  cuda_.float32.sample(elements<float>(logits), elements<std::int64_t>(contexts_),
                       elements<std::int64_t>(cache.lengths), elements<std::uint64_t>(random_),
                       elements<std::int64_t>(places_), elements<std::int64_t>(tokens_), elements<std::int64_t>(drawn_),
                       settings_.sampling, rows, static_cast<std::int64_t>(settings_.vocab_size), logits.size(1),
                       contexts_.size(1), current_stream(logits));
}

GraphedDecoder::Draw& GraphedDecoder::queue() {
  const auto rows = static_cast<std::int64_t>(rows_.count());
  auto& [uses, graph] = graphs_[rows_.count()];
  // The first is not recorded: what is loaded or allocated at first use must not happen then, and as texts end there
  // may be no second one of so many rows.
  if (++uses == 1) {
    step(rows);
  } else {
    if (!graph) graph = cuda_.record(graph_family, [this, rows] { step(rows); });
    graph();
  }
  Draw& draw = draws_[next_draw_++ % draws_.size()];
  draw.tokens.narrow(0, 0, rows).copy_(drawn_.narrow(0, 0, rows), true);
  if (draw.arrived) draw.arrived->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return draw;
}

std::vector<Token> GraphedDecoder::next(std::span<const GrowingText> texts) {
  rows_.check_texts(texts.size());
  const at::NoGradGuard no_gradient;
  if (texts.size() > rows_.count()) ahead_ = nullptr;
  if (ahead_ == nullptr) {
    begin(texts);
    ahead_ = &queue();
  }
  const Draw& draw = *ahead_;
  rows_.grow();
  bool any_full = false;  // then that context is to be encoded anew, from a token that the host does not know yet
  for (std::size_t row = 0; row < texts.size(); ++row) {
    any_full = any_full || static_cast<std::int64_t>(rows_.length(row)) == model_.shape().block_size;
  }
  ahead_ = any_full ? nullptr : &queue();
  if (draw.arrived) draw.arrived->synchronize();
  std::vector<Token> drawn;
  for (std::size_t row = 0; row < texts.size(); ++row) {
    const std::int64_t token = draw.tokens.data_ptr<std::int64_t>()[row];
    if (token < 0) refuse_broken_logits();
    drawn.push_back(static_cast<Token>(token));
  }
  return drawn;
}

void GraphedDecoder::remove(std::size_t row) {
  ahead_ = nullptr;
  contexts_.select(0, static_cast<std::int64_t>(row))
      .copy_(contexts_.select(0, static_cast<std::int64_t>(rows_.count()) - 1));
  rows_.remove(row);
}

}  // namespace inkling
