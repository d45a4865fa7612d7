#include "attend/print_json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <string_view>

namespace inkling {
namespace {

using AttentionJson = nlohmann::ordered_json;

std::string dumped(const AttentionJson& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

AttentionJson token_json(const AttendedToken& token) { return {{"id", token.id}, {"text", token.text}}; }

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

void print_json(std::ostream& out, const AttendedText& text, const std::optional<HeadChoice>& only) {
  AttentionJson about = {{"model", text.model},
                         {"prompt", text.prompt},
                         {"n_embd", text.n_embd},
                         {"n_kv_head", text.n_kv_head},
                         {"head_size", text.head_size},
                         {"position", text.position},
                         {"tokens", AttentionJson::array()},
                         {"next", AttentionJson::array()}};
  for (const AttendedToken& token : text.tokens) about["tokens"].push_back(token_json(token));
  for (const NextToken& next : text.next) {
    AttentionJson json = token_json(next.token);
    json["probability"] = next.probability;
    about["next"].push_back(json);
  }
  std::string opened = dumped(about);
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
