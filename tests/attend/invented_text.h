// Attention of no model: numbers that fit together as a model's do, for any tokens and any number of heads.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "attend/attended_text.h"

namespace inkling {

struct InventedShape {
  std::size_t layers = 2, heads = 4, head_size = 8;
  std::size_t window = 4;  // of the last layer, which is local where there is more than one
};

// Only the head `full` is in full. The numbers are the same in every call.
AttendedText invent_attention(const std::vector<std::string>& tokens, InventedShape shape, HeadChoice full);

}  // namespace inkling
