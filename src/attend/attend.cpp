#include "attend/attend.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/strings.h"
#include "config/model_shape.h"
#include "model/attention_steps.h"
#include "model/model.h"
#include "text/prompts.h"

namespace inkling {
namespace {

constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;  // of an AttendedText

// What the heads of a text take, in bytes; as double, because T^2 of a hostile prompt overflows integers.
struct HeadBytes {
  double weights, rest;  // of one head: its weights, and what else it has in full
  double heads;          // of the whole model
};

HeadBytes head_bytes(const GptShape& shape, std::size_t tokens) {
  const auto length = static_cast<double>(tokens);
  const double matrix = sizeof(float) * length * length;
  const double rows = sizeof(float) * length * static_cast<double>(shape.attention().head_size);
  return {matrix, matrix + 4 * rows, static_cast<double>(shape.n_layer * shape.n_head)};
}

void check_memory(const GptShape& shape, std::size_t tokens, const AttendSettings& settings) {
  const HeadBytes bytes = head_bytes(shape, tokens);
  const double all = (settings.only_shown ? 1.0 : bytes.heads) * bytes.weights + bytes.rest;
  if (all <= static_cast<double>(most_bytes)) return;
  throw Error::input(str("the weights between its ", format_count(tokens), " tokens would take more than ",
                         format_bytes(most_bytes), settings.only_shown ? "" : str(" in ", bytes.heads, " heads"),
                         "; give a shorter prompt", settings.only_shown ? "" : ", or ask for one head"));
}

AttendedToken shown_token(const Tokenizer& tokenizer, Token token) {
  return {static_cast<std::int64_t>(token), shown_text(tokenizer.decode(token))};
}

std::vector<float> numbers_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kCPU, at::kFloat).contiguous();
  const float* const first = flat.const_data_ptr<float>();
  return {first, first + flat.numel()};
}

void take_in_full(AttendedHead& head, const AttentionSteps& steps) {
  head.scores = numbers_of(steps.scores);
  head.queries = numbers_of(steps.queries);
  head.keys = numbers_of(steps.keys);
  head.values = numbers_of(steps.values);
  head.sums = numbers_of(steps.sums);
}

// As inkling-sample draws: among the tokenizer's tokens, of which a model may know more. logits: [V]
std::vector<NextToken> likeliest_tokens(const Tokenizer& tokenizer, const at::Tensor& logits, std::size_t count) {
  const auto tokens = static_cast<std::int64_t>(tokenizer.vocab_size());
  const at::Tensor probabilities = at::softmax(logits.to(at::kCPU, at::kDouble).narrow(0, 0, tokens), 0);
  const auto [highest, ids] = at::topk(probabilities, std::min(static_cast<std::int64_t>(count), tokens));
  std::vector<NextToken> next;
  for (std::int64_t i = 0; i < ids.size(0); ++i) {
    const auto id = static_cast<Token>(ids[i].item<std::int64_t>());
    next.push_back({shown_token(tokenizer, id), highest[i].item<double>()});
  }
  return next;
}

AttendedText describe(const LoadedModel& model, const std::string& prompt, const std::vector<Token>& tokens) {
  const GptShape& shape = model.model->shape();
  const AttentionForm form = shape.attention();
  AttendedText text{.model = model.folder.string(),
                    .prompt = prompt,
                    .n_embd = shape.n_embd,
                    .n_kv_head = form.n_kv_head,
                    .head_size = form.head_size,
                    .position = std::string(word_of(shape.position)),
                    .tokens = {},
                    .layers = {},
                    .next = {}};
  for (const Token token : tokens) text.tokens.push_back(shown_token(*model.tokenizer, token));
  for (const AttentionPattern& pattern : shape.layer_patterns()) {
    text.layers.push_back({pattern_text(pattern), std::vector<AttendedHead>(static_cast<std::size_t>(shape.n_head))});
  }
  return text;
}

}  // namespace

std::string shown_text(std::string_view bytes) {
  std::string text;
  while (const auto invalid = find_invalid_utf8(bytes)) {
    text += bytes.substr(0, *invalid);
    text += "\\x" + hexadecimal(static_cast<unsigned char>(bytes[*invalid]), 2);
    bytes.remove_prefix(*invalid + 1);
  }
  return text.append(bytes);
}

std::vector<Token> attended_tokens(const LoadedModel& model, const std::string& prompt,
                                   const AttendSettings& settings) {
  if (prompt.empty()) throw Error::input("the prompt is empty, so there is nothing to attend to");
  std::vector<Token> tokens = encode_prompt(require_tokenizer(model), prompt, settings.names);
  const GptShape& shape = model.model->shape();
  if (static_cast<std::int64_t>(tokens.size()) > shape.block_size) {
    throw Error::input(str("the prompt has ", format_count(tokens.size()), " tokens, and the model sees at most ",
                           shape.block_size, " at once (its block_size); give a shorter one"));
  }
  check_memory(shape, tokens.size(), settings);
  return tokens;
}

AttendedText attend(const LoadedModel& model, const std::string& prompt, const AttendSettings& settings) {
  const std::vector<Token> tokens = attended_tokens(model, prompt, settings);
  const GptShape& shape = model.model->shape();
  const HeadBytes bytes = head_bytes(shape, tokens.size());
  const bool all_in_full =
      !settings.only_shown && bytes.heads * bytes.rest <= static_cast<double>(settings.most_in_full);
  AttendedText text = describe(model, prompt, tokens);
  const auto watch = [&](std::int64_t layer, std::int64_t number, const AttentionSteps& steps) {
    const HeadChoice choice{static_cast<std::size_t>(layer), static_cast<std::size_t>(number)};
    const bool is_shown = choice == settings.shown;
    if (settings.only_shown && !is_shown) return;
    AttendedHead& head = text.layers[choice.layer].heads[choice.head];
    head.weights = numbers_of(steps.weights);
    if (is_shown || all_in_full) take_in_full(head, steps);
  };
  const at::NoGradGuard no_gradients;
  const std::vector<std::int64_t> ids(tokens.begin(), tokens.end());
  const at::Tensor row = at::tensor(ids, at::kLong).unsqueeze(0).to(model.runtime.device);
  const at::Tensor logits = watched_logits(shape, *model.arena, row, watch)[0][-1];
  if (!logits.isfinite().all().item<bool>()) {
    refuse_broken_answer();
  }
  text.next = likeliest_tokens(*model.tokenizer, logits, settings.likeliest);
  return text;
}

HeadChoice clearest_head(const AttendedText& text) {
  const std::size_t tokens = text.tokens.size();
  HeadChoice clearest;
  float most = 0;
  for (std::size_t layer = 0; layer < text.layers.size(); ++layer) {
    for (std::size_t head = 0; head < text.layers[layer].heads.size(); ++head) {
      const std::span last = std::span(text.layers[layer].heads[head].weights).last(tokens);
      for (std::size_t seen = 1; seen + 1 < tokens; ++seen) {
        if (last[seen] > most) {
          most = last[seen];
          clearest = {layer, head};
        }
      }
    }
  }
  return clearest;
}

std::string head_text(HeadChoice choice) { return str(choice.layer, '.', choice.head); }

HeadChoice read_head(std::string_view text, std::int64_t n_layer, std::int64_t n_head) {
  const std::size_t dot = text.find('.');
  const auto layer = whole_number(text.substr(0, dot));
  const auto head = dot == std::string_view::npos ? std::nullopt : whole_number(text.substr(dot + 1));
  const auto shown_as = [&](std::string_view what) {
    return Error::input(str(what, ", both counted from 0: 0.0 to ", n_layer - 1, ".", n_head - 1));
  };
  if (!layer || !head)
    throw shown_as(str(quote(text), " is no head of the model, which is written as a layer and a head"));
  if (*layer < n_layer && *head < n_head) return {static_cast<std::size_t>(*layer), static_cast<std::size_t>(*head)};
  throw shown_as(str(text, " is no head of the model, which has ", n_layer, n_layer == 1 ? " layer" : " layers", " of ",
                     n_head, n_head == 1 ? " head" : " heads"));
}

}  // namespace inkling
