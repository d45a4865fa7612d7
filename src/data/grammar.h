// Probabilistic grammars of little stories whose exact probability is known, so that a loss has a known lower bound.
//
// A grammar is plain UTF-8 text:
//
//     # A line that begins with # is a comment.
//     animal | home | he:            a rule: its name, then the names of its further columns
//       * a fox | den | he           a production: `*`, then one text for each column
//       3 * a hen | barn | she       with a weight (1 where none is written)
//
//     story:                         every text comes from the rule `story`
//       * {^hero=animal} lived in a {hero.home}, where {hero.he}
//         {habit}.\n                 a deeper line goes on after one space
//
// In braces:
//     {habit}          chooses a production of the rule `habit`, anew each time, and writes its first column
//     {hero=animal}    does so and remembers the production as `hero`
//     {hero} {hero.he} writes the first column, or the column `he`, of what `hero` remembers: no new choice
//     {animal.home}, {hero=animal.home}   choose, and write that column instead of the first
//     {^...}           the same, beginning with a capital (a to z)
// A column's text may hold braces of its own; they see what is remembered where they are written. Rules may not
// recurse.
// \{ \} \| \* \# \\ stand for themselves, \n for a new line, \_ for a space that must not be trimmed.
//
// Every text must have one derivation only. The check (grammar_graph.h) is sound: it never lets an ambiguous grammar
// pass. It demands that a choice shows in the text before its alternatives join again, so a production that is only
// remembered now and seen later is refused too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace inkling {

struct Story {
  std::string text;
  double nats = 0;  // -log of the probability of the whole text, its end included
};

class Grammar {
 public:
  // Throws Error input with file:line:column for a mistake in the grammar: an unknown name, a cycle, a weight that is
  // not a positive number, a variable that is written before it is chosen, a rule that nothing uses, or two ways to
  // make the same text. `name` stands for the path in messages.
  static Grammar parse(std::string_view source, std::string_view name);
  static Grammar load(const std::filesystem::path& path);
  ~Grammar();
  Grammar(Grammar&&) noexcept;

  // Story number `index` under `seed`: a pure function of both, the same on every machine.
  Story expand(std::uint64_t seed, std::uint64_t index) const;

  // The -log probability of a text, infinite if the grammar cannot make it. It is found by parsing, adding up all
  // derivations, and shares nothing with expand() but the rules.
  double nats(std::string_view text) const;

  // The -log probability of each byte given those before it, then of the end of the text: text.size() + 1 numbers that
  // add up to nats(text). They are infinite from the first byte on that the grammar cannot make.
  std::vector<double> nats_per_byte(std::string_view text) const;

  // These are exact over all stories, without sampling. Lengths are in bytes.
  double entropy() const { return entropy_; }  // mean of Story::nats
  double mean_length() const { return mean_length_; }
  std::size_t longest() const { return longest_; }

  std::size_t production_count() const;

 private:
  struct Rules;
  explicit Grammar(std::unique_ptr<Rules> rules);

  std::unique_ptr<Rules> rules_;
  double entropy_ = 0, mean_length_ = 0;
  std::size_t longest_ = 0;
};

}  // namespace inkling
