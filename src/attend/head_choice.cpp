#include "attend/head_choice.h"

#include <optional>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

std::string head_text(HeadChoice choice) { return str(choice.layer, '.', choice.head); }

HeadChoice read_head(std::string_view text, std::string_view flag, std::int64_t n_layer, std::int64_t n_head) {
  const std::size_t dot = text.find('.');
  const auto layer = whole_number(text.substr(0, dot));
  const auto head = dot == std::string_view::npos ? std::nullopt : whole_number(text.substr(dot + 1));
  if (!layer || !head) {
    throw Error::input(str(flag, " is ", quote(text), ", and must be a layer and a head, both counted from 0: ", flag,
                           " 0.0 to ", flag, " ", n_layer - 1, ".", n_head - 1));
  }
  if (*layer < n_layer && *head < n_head) return {static_cast<std::size_t>(*layer), static_cast<std::size_t>(*head)};
  throw Error::input(str(flag, " is ", text, ", and the model has ", n_layer, n_layer == 1 ? " layer" : " layers",
                         " of ", n_head, n_head == 1 ? " head" : " heads", ", counted from 0: ", flag, " 0.0 to ", flag,
                         " ", n_layer - 1, ".", n_head - 1));
}

}  // namespace inkling
