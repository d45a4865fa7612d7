// What every head of a model attends to in one text, as numbers, and how inkling-attend shows them: as a page, as a
// picture or as JSON. T is the number of tokens, D the channels of a head. Layers, heads and tokens count from 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace inkling {

// Row i of each matrix belongs to token i, row by row.
struct AttendedHead {
  std::vector<float> weights;  // [T, T], after softmax: how much token i takes of token j; 0 where it may not look
  // What the weights come from and what they make, which is left out (empty) where it would be too much:
  // [T, T], before softmax: q_i k_j / sqrt(D), less ALiBi's fall; -infinity where i may not look
  std::vector<float> scores;
  std::vector<float> queries, keys, values;  // [T, D], queries and keys as they meet: after their norms and turns
  std::vector<float> sums;                   // [T, D]: the rows of weights times values

  bool in_full() const { return !scores.empty(); }
};

struct AttendedLayer {
  std::string pattern;              // as model.attention writes it: "full", "local 8", "dilated 8 2"
  std::vector<AttendedHead> heads;  // n_head; heads that share keys and values have equal copies of them
};

struct AttendedToken {
  std::int64_t id = 0;
  std::string text;  // UTF-8; bytes that are no character alone are shown as \xNN
};

struct NextToken {
  AttendedToken token;
  double probability = 0;
};

struct AttendedText {
  std::string model;  // the folder, as it was named
  std::string prompt;
  std::int64_t n_embd = 0, n_kv_head = 0, head_size = 0;
  std::string position;  // as model.position writes it
  std::vector<AttendedToken> tokens;
  std::vector<AttendedLayer> layers;
  std::vector<NextToken> next;  // the likeliest tokens after the last one, the likeliest first
};

// One head of a model, as people name it: layer and head, both counted from 0, with a dot between them.
struct HeadChoice {
  std::size_t layer = 0, head = 0;
  bool operator==(const HeadChoice&) const = default;
};

// Returns "2.5".
std::string head_text(HeadChoice choice);

// Reads it again, for a model of so many layers and heads. Throws Error input for anything else, and for a head that
// the model does not have.
HeadChoice read_head(std::string_view text, std::int64_t n_layer, std::int64_t n_head);

// Returns the head that has most to show: in which the last token takes most of one token that is neither the first nor
// itself, which many heads look at when they have nothing to say. Reads the weights of all heads.
HeadChoice clearest_head(const AttendedText& text);

// Returns one HTML file, to be explored in a browser, that is complete in itself and asks no network for anything. It
// opens with the head `shown`. All weights are kept in 8 bits (to the nearest 1/255); heads that are in full have
// everything in float32. Texts may hold anything: none of it becomes markup or script. docs/formats.md describes the
// numbers inside.
std::string attention_page(const AttendedText& text, HeadChoice shown);

// Returns one head as an SVG file, for a paper or a page: the tokens twice, in reading order from top to bottom, at the
// left those that look, each with its largest weight, at the right those that are looked at, and lines between them.
// The more weight, the thicker and stronger a line; weights below 0.01 have none. It is drawn on white, and on dark
// where the reader's system asks for dark colours.
std::string head_picture(const AttendedText& text, HeadChoice shown);

// Writes one line of JSON (docs/formats.md, "Attention"): the weights of all heads, or of `only` one head everything.
// Numbers are the shortest that read back as the same float32. Row i of a matrix of tokens ends with token i, because
// nothing looks ahead.
void print_json(std::ostream& out, const AttendedText& text, const std::optional<HeadChoice>& only);

}  // namespace inkling
