#include "attend/page.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "attend/page_sources.h"
#include "base/hash.h"

namespace inkling {
namespace {

using Json = nlohmann::ordered_json;

std::string base64(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t there = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < there ? std::to_integer<std::uint32_t>(bytes[at + i]) : 0);
    for (std::size_t i = 0; i < 4; ++i) text += i <= there ? digits[group >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

std::string floats(std::span<const float> numbers) {
  static_assert(std::endian::native == std::endian::little);  // as every browser's machine
  return base64(std::as_bytes(numbers));
}

// Rows of a square matrix up to the diagonal: what follows is ahead of the token, which no token sees.
template <typename Number>
std::vector<float> triangle(const std::vector<Number>& matrix, std::size_t tokens) {
  std::vector<float> kept;
  kept.reserve(tokens * (tokens + 1) / 2);
  for (std::size_t i = 0; i < tokens; ++i)
    kept.insert(kept.end(), matrix.begin() + i * tokens, matrix.begin() + i * tokens + i + 1);
  return kept;
}

std::string in_8_bits(const std::vector<float>& weights) {
  std::vector<std::byte> bytes;
  bytes.reserve(weights.size());
  for (const float weight : weights) {  // what is not a number becomes 0
    const float share = weight > 0 ? std::min(weight, 1.0F) : 0;
    bytes.push_back(static_cast<std::byte>(std::lround(share * 255)));
  }
  return base64(bytes);
}

Json head_json(const AttendedHead& head, std::size_t tokens) {
  const std::vector<float> weights = triangle(head.weights, tokens);
  Json json{{"weights", in_8_bits(weights)}};
  if (head.in_full()) {
    json["full"] = {{"weights", floats(weights)},      {"scores", floats(triangle(head.scores, tokens))},
                    {"queries", floats(head.queries)}, {"keys", floats(head.keys)},
                    {"values", floats(head.values)},   {"sums", floats(head.sums)}};
  }
  return json;
}

Json page_json(const AttendedText& text, HeadChoice shown) {
  Json json{{"model", text.model},
            {"prompt", text.prompt},
            {"n_embd", text.n_embd},
            {"n_kv_head", text.n_kv_head},
            {"head_size", text.head_size},
            {"position", text.position},
            {"shown", {{"layer", shown.layer}, {"head", shown.head}}}};
  json["tokens"] = Json::array();
  for (const AttendedToken& token : text.tokens) json["tokens"].push_back({{"id", token.id}, {"text", token.text}});
  json["layers"] = Json::array();
  for (const AttendedLayer& layer : text.layers) {
    Json heads = Json::array();
    for (const AttendedHead& head : layer.heads) heads.push_back(head_json(head, text.tokens.size()));
    json["layers"].push_back({{"pattern", layer.pattern}, {"heads", std::move(heads)}});
  }
  json["next"] = Json::array();
  for (const NextToken& next : text.next)
    json["next"].push_back({{"id", next.token.id}, {"text", next.token.text}, {"probability", next.probability}});
  return json;
}

void replace_all(std::string& text, std::string_view mark, std::string_view with) {
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + with.size()))
    text.replace(at, mark.size(), with);
}

}  // namespace

std::string attention_page(const AttendedText& text, HeadChoice shown) {
  // Only ASCII comes out of dump(), and in JSON "<" stands inside strings alone, so nothing can end the element.
  std::string numbers = page_json(text, shown).dump(-1, ' ', true, Json::error_handler_t::replace);
  replace_all(numbers, "<", "\\u003c");
  // The browser runs only scripts that have this name. A prompt cannot say it, because it depends on the prompt.
  std::string page(page_sources);
  replace_all(page, "@NONCE@", hash_text(numbers));
  const std::string_view mark = "@DATA@";
  return page.replace(page.find(mark), mark.size(), numbers);
}

}  // namespace inkling
