// What every head of a model attends to in one text: the numbers behind inkling-attend's page, JSON and pictures. T is
// the number of tokens, D the channels of a head. Layers, heads and tokens count from 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace inkling {

// Row i of each matrix belongs to token i, row by row.
struct AttendedHead {
  std::vector<float> weights;  // [T, T], after softmax: how much token i takes of token j; 0 where it may not look
  // What the weights come from and what they make, which is left out (empty) where it would be too much:
  std::vector<float> scores;  // [T, T], before softmax: q_i k_j / sqrt(D); -infinity where i may not look
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

}  // namespace inkling
