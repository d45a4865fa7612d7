// print_logits: answers the requests of scripts/check-huggingface, a line each on standard input, words parted by tabs:
//   logits FOLDER TOKEN...         the model's logits for one row of tokens, a line per token
//   greedy COUNT FOLDER TOKEN...   the COUNT tokens that follow, each the likeliest, from cached keys and values
//   attention FOLDER TOKEN...      the weights of attention, of each layer, head and token a line
// An answer ends with an empty line; where there is none it is a line that begins with "error: ". Each opens its folder
// anew: loading LibTorch takes longer than a tiny model.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint/model_weights.h"
#include "formats/token_file.h"
#include "generate/decoder.h"
#include "model/attention_steps.h"
#include "model/model.h"

namespace {

using inkling::Token;

std::vector<Token> read_tokens(std::istream& words, std::int64_t vocab_size) {
  std::vector<Token> tokens;
  for (std::string word; std::getline(words, word, '\t');) {
    const long long token = std::stoll(word);
    if (token < 0 || token >= vocab_size) throw std::out_of_range(word + " is no token");
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

void answer(const std::string& request) {
  std::istringstream words(request);
  const auto next = [&] {
    std::string word;
    if (!std::getline(words, word, '\t')) throw std::invalid_argument("a request without all of its words");
    return word;
  };
  const std::string what = next();
  const long count = what == "greedy" ? std::stol(next()) : 0;
  const inkling::LoadedModel loaded = inkling::load_model(next(), {});
  const std::vector<Token> tokens = read_tokens(words, loaded.model->shape().vocab_size);
  if (tokens.empty()) throw std::invalid_argument("a request without tokens");
  if (what == "logits") return print_logits(*loaded.model, tokens);
  if (what == "greedy") return print_greedy(*loaded.model, tokens, count);
  if (what == "attention") return print_attention(loaded, tokens);
  throw std::invalid_argument(what + " is no request");
}

}  // namespace

int main() {
  for (std::string request; std::getline(std::cin, request);) {
    try {
      answer(request);
    } catch (const std::exception& error) {
      std::printf("error: %s\n", error.what());
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}
