// Probabilistic grammars of little stories whose exact probability is known, so that a loss has a known lower bound.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace inkling {

struct Story {
  std::string text;
  double nats = 0;  // -log of the probability of the whole text
};

// The format is described in docs/formats.md and at the head of data/fables.grammar.
class Grammar {
 public:
  // Error input with file:line:column for a mistake in the grammar: unknown symbol, a cycle, a weight that is no
  // positive number, or two ways to make the same text.
  static Grammar parse(std::string_view source, std::string_view name);
  static Grammar load(const std::filesystem::path& path);
  ~Grammar();
  Grammar(Grammar&&) noexcept;

  Story expand(std::uint64_t seed, std::uint64_t index) const;  // story number `index` under `seed`
  // -log probability of a text, infinite where the grammar cannot make it. Independent of expand().
  double nats(std::string_view text) const;
  double entropy() const;            // exact mean of Story::nats over all stories, in nats per story
  double mean_length() const;        // exact mean length in characters
  std::size_t longest() const;       // characters of the longest story
  std::size_t production_count() const;

 private:
  struct Rules;
  explicit Grammar(std::unique_ptr<Rules> rules);
  std::unique_ptr<Rules> rules_;
};

}  // namespace inkling
