// One head of a model, as people name it: layer and head, both counted from 0, with a dot between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace inkling {

struct HeadChoice {
  std::size_t layer = 0, head = 0;
  bool operator==(const HeadChoice&) const = default;
};

// Returns "2.5".
std::string head_text(HeadChoice choice);

// Reads it again, for a model of so many layers and heads. Throws Error input naming `flag` for anything else, and for
// a head that the model does not have.
HeadChoice read_head(std::string_view text, std::string_view flag, std::int64_t n_layer, std::int64_t n_head);

}  // namespace inkling
