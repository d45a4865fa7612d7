#include "tests/attend/invented_text.h"

#include <cmath>
#include <limits>
#include <random>

namespace inkling {
namespace {

std::vector<float> invent_numbers(std::minstd_rand& random, std::size_t count) {
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(random() % 4001) / 1000 - 2;  // -2 to 2
  return numbers;
}

// Scores, weights and sums from queries, keys and values, as in "Attention Is All You Need", equation 1.
void attend(AttendedHead& head, std::size_t tokens, std::size_t window) {
  const std::size_t size = head.queries.size() / tokens;
  head.scores.assign(tokens * tokens, -std::numeric_limits<float>::infinity());
  head.weights.assign(tokens * tokens, 0);
  head.sums.assign(tokens * size, 0);
  for (std::size_t i = 0; i < tokens; ++i) {
    const std::size_t first = i + 1 > window ? i + 1 - window : 0;
    double total = 0;
    for (std::size_t j = first; j <= i; ++j) {
      double product = 0;
      for (std::size_t c = 0; c < size; ++c) product += head.queries[i * size + c] * head.keys[j * size + c];
      head.scores[i * tokens + j] = static_cast<float>(product / std::sqrt(static_cast<double>(size)));
      total += std::exp(head.scores[i * tokens + j]);
    }
    for (std::size_t j = first; j <= i; ++j) {
      const float weight = static_cast<float>(std::exp(head.scores[i * tokens + j]) / total);
      head.weights[i * tokens + j] = weight;
      for (std::size_t c = 0; c < size; ++c) head.sums[i * size + c] += weight * head.values[j * size + c];
    }
  }
}

}  // namespace

AttendedText invent_attention(const std::vector<std::string>& tokens, InventedShape shape, HeadChoice full) {
  std::minstd_rand random(1);
  AttendedText text;
  text.model = "runs/invented";
  text.position = "learned";
  text.n_kv_head = static_cast<std::int64_t>(shape.heads);
  text.head_size = static_cast<std::int64_t>(shape.head_size);
  text.n_embd = text.n_kv_head * text.head_size;
  for (const std::string& token : tokens) {
    text.prompt += token;
    text.tokens.push_back({.id = static_cast<std::int64_t>(random() % 1280), .text = token});
  }
  for (std::size_t layer = 0; layer < shape.layers; ++layer) {
    const bool local = layer > 0 && layer + 1 == shape.layers;
    text.layers.push_back({.pattern = local ? "local " + std::to_string(shape.window) : "full", .heads = {}});
    for (std::size_t h = 0; h < shape.heads; ++h) {
      AttendedHead head;
      for (auto* numbers : {&head.queries, &head.keys, &head.values})
        *numbers = invent_numbers(random, tokens.size() * shape.head_size);
      attend(head, tokens.size(), local ? shape.window : tokens.size());
      if (HeadChoice{layer, h} != full)
        head = {.weights = head.weights, .scores = {}, .queries = {}, .keys = {}, .values = {}, .sums = {}};
      text.layers.back().heads.push_back(std::move(head));
    }
  }
  for (int i = 0; i < 5; ++i) {
    const std::size_t token = static_cast<std::size_t>(i) % tokens.size();
    text.next.push_back({.token = text.tokens[token], .probability = 0.5 / (1 << i)});
  }
  return text;
}

}  // namespace inkling
