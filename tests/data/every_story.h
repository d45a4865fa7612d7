// Every derivation of a small grammar, by plain recursion over its syntax tree: what the clever code is judged against.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/grammar_syntax.h"

namespace inkling {

class EveryStory {
 public:
  explicit EveryStory(const grammar::Syntax& syntax) : syntax_(syntax) {
    State state;
    state.remembered.resize(syntax.variables.size());
    const grammar::Part story{.kind = grammar::Part::Kind::choose, .text = {}, .rule = syntax.start, .place = {}};
    choose(story, state, [this](const State& done) { stories_.emplace_back(done.text, done.probability); });
  }

  std::vector<std::pair<std::string, double>> take() { return std::move(stories_); }

 private:
  struct State {
    std::string text;
    double probability = 1;
    std::vector<grammar::Choice> remembered;
    bool capital = false;
  };
  using Then = std::function<void(const State&)>;

  void write(const grammar::Template& parts, std::size_t index, State state, const Then& then) {
    if (index == parts.size()) return then(state);
    const grammar::Part& part = parts[index];
    const Then rest = [&](const State& next) { write(parts, index + 1, next, then); };
    if (part.kind == grammar::Part::Kind::choose) return choose(part, state, rest);
    if (part.kind == grammar::Part::Kind::mention) {
      state.capital |= part.capital;
      return write(syntax_.field(state.remembered[part.variable], part.column), 0, state, rest);
    }
    for (const char c : part.text) {
      state.text.push_back(state.capital && c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c);
      state.capital = false;
    }
    rest(state);
  }

  void choose(const grammar::Part& part, const State& state, const Then& then) {
    const std::vector<grammar::Production>& productions = syntax_.rules[part.rule].productions;
    for (std::size_t i = 0; i < productions.size(); ++i) {
      State next = state;
      next.probability *= productions[i].probability;
      next.capital |= part.capital;
      if (part.variable != grammar::none) next.remembered[part.variable] = {part.rule, i};
      write(syntax_.field({part.rule, i}, part.column), 0, next, then);
    }
  }

  const grammar::Syntax& syntax_;
  std::vector<std::pair<std::string, double>> stories_;
};

// One entry per derivation: its text and its probability.
inline std::vector<std::pair<std::string, double>> every_story(const grammar::Syntax& syntax) {
  return EveryStory(syntax).take();
}

}  // namespace inkling
