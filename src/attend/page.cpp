// Shows attention as a page for a browser, and as JSON.

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <string_view>
#include <vector>

#include "attend/attended_text.h"
#include "base/hash.h"

namespace inkling {

// The page without numbers: page.html with its style and scripts, which CMake compiles in (cmake/text_source.cmake).
// @DATA@ stands where the numbers belong, and @NONCE@ wherever the name of the page's own scripts belongs.
extern const std::string_view page_sources;

namespace {

using Json = nlohmann::ordered_json;

// What a page and a line of JSON both say of the model and the text.
Json describe_text(const AttendedText& text) {
  Json json{{"model", text.model},         {"prompt", text.prompt},       {"n_embd", text.n_embd},
            {"n_kv_head", text.n_kv_head}, {"head_size", text.head_size}, {"position", text.position},
            {"tokens", Json::array()},     {"next", Json::array()}};
  const auto token_json = [](const AttendedToken& token) { return Json{{"id", token.id}, {"text", token.text}}; };
  for (const AttendedToken& token : text.tokens) json["tokens"].push_back(token_json(token));
  for (const NextToken& next : text.next) {
    json["next"].push_back(token_json(next.token));
    json["next"].back()["probability"] = next.probability;
  }
  return json;
}

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
  Json json = describe_text(text);
  json["shown"] = {{"layer", shown.layer}, {"head", shown.head}};
  json["layers"] = Json::array();
  for (const AttendedLayer& layer : text.layers) {
    Json heads = Json::array();
    for (const AttendedHead& head : layer.heads) heads.push_back(head_json(head, text.tokens.size()));
    json["layers"].push_back({{"pattern", layer.pattern}, {"heads", std::move(heads)}});
  }
  return json;
}

void replace_all(std::string& text, std::string_view mark, std::string_view with) {
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + with.size()))
    text.replace(at, mark.size(), with);
}

std::string dumped(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

void append_number(std::string& out, float value) {
  if (!std::isfinite(value)) {  // where a token may not look
    out += "null";
    return;
  }
  std::array<char, 32> digits;
  out.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

void append_row(std::string& out, std::span<const float> row) {
  out += '[';
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i > 0) out += ',';
    append_number(out, row[i]);
  }
  out += ']';
}

enum class Rows {
  whole,
  up_to_their_own
};  // a row of [T, D], or one of [T, T], behind whose own token nothing is seen

// A matrix of so many rows is written row by row: all heads of a long text are more than should be one string.
void print_matrix(std::ostream& out, std::span<const float> numbers, std::size_t rows, Rows form) {
  const std::size_t columns = numbers.size() / rows;
  out << '[';
  for (std::size_t i = 0; i < rows; ++i) {
    std::string row = i > 0 ? "," : "";
    append_row(row, numbers.subspan(i * columns, form == Rows::whole ? columns : i + 1));
    out << row;
  }
  out << ']';
}

void print_weights(std::ostream& out, const AttendedHead& head, std::size_t tokens) {
  out << R"("weights":)";
  print_matrix(out, head.weights, tokens, Rows::up_to_their_own);
}

void print_one_head(std::ostream& out, const AttendedText& text, HeadChoice choice) {
  const AttendedLayer& layer = text.layers[choice.layer];
  const AttendedHead& head = layer.heads[choice.head];
  const std::size_t tokens = text.tokens.size();
  out << R"("head":{"layer":)" << choice.layer << R"(,"head":)" << choice.head << R"(,"pattern":)"
      << dumped(layer.pattern) << ',';
  print_weights(out, head, tokens);
  out << R"(,"scores":)";
  print_matrix(out, head.scores, tokens, Rows::up_to_their_own);
  const std::array<std::pair<std::string_view, const std::vector<float>&>, 4> vectors = {
      {{"queries", head.queries}, {"keys", head.keys}, {"values", head.values}, {"sums", head.sums}}};
  for (const auto& [name, numbers] : vectors) {
    out << ",\"" << name << "\":";
    print_matrix(out, numbers, tokens, Rows::whole);
  }
  out << '}';
}

void print_all_heads(std::ostream& out, const AttendedText& text) {
  out << R"("layers":[)";
  for (std::size_t layer = 0; layer < text.layers.size(); ++layer) {
    out << (layer > 0 ? "," : "") << R"({"pattern":)" << dumped(text.layers[layer].pattern) << R"(,"heads":[)";
    const std::vector<AttendedHead>& heads = text.layers[layer].heads;
    for (std::size_t head = 0; head < heads.size(); ++head) {
      out << (head > 0 ? ",{" : "{");
      print_weights(out, heads[head], text.tokens.size());
      out << '}';
    }
    out << "]}";
  }
  out << ']';
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

void print_json(std::ostream& out, const AttendedText& text, const std::optional<HeadChoice>& only) {
  std::string opened = dumped(describe_text(text));
  opened.back() = ',';  // the heads follow inside the same object
  out << opened;
  if (only) {
    print_one_head(out, text, *only);
  } else {
    print_all_heads(out, text);
  }
  out << "}\n";
}

}  // namespace inkling
