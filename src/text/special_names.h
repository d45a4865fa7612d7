// The names of special tokens, as <|endoftext|>, where they stand in a text as ordinary characters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace inkling {

// What other programs write at the end of a document, whatever the tokenizer at hand calls its own.
inline constexpr const char* common_separators[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

// Finds names in texts, at the pace of a search for one byte where they all begin with the same one.
class SpecialNames {
 public:
  explicit SpecialNames(std::vector<std::string> names);  // those of less than two bytes are left out
  SpecialNames(SpecialNames&&) = default;

  struct Found {
    std::size_t offset;
    std::string_view name;  // lives as long as this
  };
  // The first name that begins at or behind `from`; of several that begin there, the longest.
  std::optional<Found> find(std::string_view text, std::size_t from = 0) const;

  std::size_t longest() const { return longest_; }  // in bytes; 0 if there are none

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, std::vector<std::string_view>> by_two_bytes_;  // the longest first
  std::array<bool, 256> begins_{};                                                    // whether a name does with a byte
  std::string first_bytes_;
  std::size_t longest_ = 0;
};

}  // namespace inkling
