// print_logits FOLDER TOKEN...: the model's logits for one row of tokens, a line per token.
// print_logits --greedy COUNT FOLDER TOKEN...: the COUNT tokens that follow, each the likeliest, from cached keys and
// values.
// print_logits --attention FOLDER TOKEN...: the weights of attention, of each layer, head and token a line. All are for
// scripts/check-huggingface to compare.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/load_model.h"
#include "formats/token_file.h"
#include "generate/decoder.h"
#include "model/attention_steps.h"
#include "model/model.h"

namespace {

using inkling::Token;

std::vector<Token> read_tokens(std::span<char*> words, std::int64_t vocab_size) {
  std::vector<Token> tokens;
  for (const char* word : words) {
    const long long token = std::stoll(word);
    if (token < 0 || token >= vocab_size) throw std::out_of_range(std::string(word) + " is no token");
    tokens.push_back(static_cast<Token>(token));
  }
  return tokens;
}

at::Tensor row_of(std::vector<std::int64_t>& numbers) {
  return at::from_blob(numbers.data(), {1, static_cast<std::int64_t>(numbers.size())}, at::kLong);
}

void print_rows(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  const float* value = whole.const_data_ptr<float>();
  for (std::int64_t index = 0; index < whole.numel(); ++index) {
    std::printf("%.9g%c", static_cast<double>(value[index]), (index + 1) % whole.size(-1) == 0 ? '\n' : ' ');
  }
}

void print_logits(const inkling::Model& model, const std::vector<Token>& tokens) {
  std::vector<std::int64_t> numbers(tokens.begin(), tokens.end());
  print_rows(model.logits(row_of(numbers)));
}

void print_attention(const inkling::LoadedModel& loaded, const std::vector<Token>& tokens) {
  std::vector<std::int64_t> numbers(tokens.begin(), tokens.end());
  const auto print = [](std::int64_t, std::int64_t, const inkling::AttentionSteps& steps) {
    print_rows(steps.weights);
  };
  inkling::watched_logits(loaded.model->shape(), *loaded.arena, row_of(numbers), print);
}

void print_greedy(const inkling::Model& model, std::vector<Token> text, long count) {
  inkling::EagerLogits logits_after(model, {}, 1, true);
  for (long step = 0; step < count; ++step) {
    const std::span<const Token> row = text;
    const at::Tensor logits = logits_after({&row, 1}).contiguous();
    const float* first = logits.const_data_ptr<float>();
    text.push_back(static_cast<Token>(std::max_element(first, first + logits.numel()) - first));
    std::printf("%lld%c", static_cast<long long>(text.back()), step + 1 == count ? '\n' : ' ');
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::span<char*> words(argv + 1, argv + argc);
  const std::string_view first = words.empty() ? "" : words.front();
  const bool greedy = first == "--greedy", attention = first == "--attention";
  const long count = greedy && words.size() > 1 ? std::strtol(words[1], nullptr, 10) : 0;
  words = words.subspan(std::min<std::size_t>(greedy ? 2 : attention ? 1 : 0, words.size()));
  if (words.size() < 2 || (greedy && count < 1)) {
    std::fputs("print_logits [--greedy COUNT | --attention] FOLDER TOKEN...\n", stderr);
    return 2;
  }
  try {
    const inkling::LoadedModel loaded = inkling::load_model(words.front(), {});
    const std::vector<Token> tokens = read_tokens(words.subspan(1), loaded.model->shape().vocab_size);
    if (attention) {
      print_attention(loaded, tokens);
    } else {
      greedy ? print_greedy(*loaded.model, tokens, count) : print_logits(*loaded.model, tokens);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
