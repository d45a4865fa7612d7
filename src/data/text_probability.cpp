#include "data/grammar_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace inkling::grammar {
namespace {

// One derivation that has made the text so far: what it remembers and what it will write next.
struct Derivation {
  std::size_t rest = 0;  // index into Reader::rests_; 0 is nothing
  std::vector<Choice> remembered;
  bool capital = false;
  double log_probability = 0;
};

class Reader {
 public:
  explicit Reader(const Syntax& syntax)
      : syntax_(syntax),
        whole_{{.kind = Part::Kind::choose, .text = {}, .rule = syntax.start, .place = {}}},
        rests_(1) {}

  std::vector<double> read(std::string_view text) {
    constexpr double never = std::numeric_limits<double>::infinity();
    std::vector<double> nats(text.size() + 1, never);
    std::vector<Derivation> derivations{
        {.rest = rest_from(whole_, 0, 0), .remembered = std::vector<Choice>(syntax_.variables.size())}};
    double before = 0;
    for (std::size_t i = 0; i <= text.size() && !derivations.empty(); ++i) {
      next_.clear();
      for (Derivation& derivation : derivations) {
        if (i < text.size()) {
          take_byte(derivation, text[i]);
        } else {
          take_end(derivation);
        }
      }
      derivations.swap(next_);
      if (derivations.empty()) break;
      const double after = log_of_sum(derivations);
      nats[i] = before - after;
      before = after;
    }
    return nats;
  }

 private:
  // The parts of a template from `index` on, `byte` characters of the first of them written, then `next`.
  struct Rest {
    const Template* parts = nullptr;
    std::size_t index = 0, byte = 0, next = 0;
  };

  std::size_t rest_from(const Template& parts, std::size_t index, std::size_t next) {
    if (index == parts.size()) return next;
    rests_.push_back({&parts, index, 0, next});
    return rests_.size() - 1;
  }

  // Adds to next_ every way in which `derivation` can write `byte`.
  void take_byte(Derivation& derivation, char byte) {
    while (derivation.rest != 0) {
      const Rest rest = rests_[derivation.rest];
      const Part& part = (*rest.parts)[rest.index];
      if (part.kind == Part::Kind::choose) {
        return for_each_production(derivation, [&](Derivation& chosen) { take_byte(chosen, byte); });
      }
      if (part.kind == Part::Kind::mention) {
        write(derivation, derivation.remembered[part.variable]);
        continue;
      }
      char first = part.text[rest.byte];
      if (derivation.capital && first >= 'a' && first <= 'z') first = static_cast<char>(first - 'a' + 'A');
      if (first != byte) return;
      derivation.capital = false;
      if (rest.byte + 1 < part.text.size()) {
        rests_.push_back({rest.parts, rest.index, rest.byte + 1, rest.next});
        derivation.rest = rests_.size() - 1;
      } else {
        derivation.rest = rest_from(*rest.parts, rest.index + 1, rest.next);
      }
      next_.push_back(std::move(derivation));
      return;
    }
  }

  // Adds to next_ every way in which `derivation` can end here.
  void take_end(Derivation& derivation) {
    while (derivation.rest != 0) {
      const Rest rest = rests_[derivation.rest];
      const Part& part = (*rest.parts)[rest.index];
      if (part.kind == Part::Kind::text) return;
      if (part.kind == Part::Kind::choose) {
        return for_each_production(derivation, [&](Derivation& chosen) { take_end(chosen); });
      }
      write(derivation, derivation.remembered[part.variable]);
    }
    next_.push_back(std::move(derivation));
  }

  template <typename Visit>
  void for_each_production(const Derivation& derivation, const Visit& visit) {
    const Rest rest = rests_[derivation.rest];
    const Part& part = (*rest.parts)[rest.index];
    const Rule& rule = syntax_.rules[part.rule];
    for (std::size_t i = 0; i < rule.productions.size(); ++i) {
      Derivation chosen = derivation;
      chosen.log_probability += std::log(rule.productions[i].probability);
      if (part.variable != none) chosen.remembered[part.variable] = {part.rule, i};
      write(chosen, {part.rule, i});
      visit(chosen);
    }
  }

  // Replaces the choice or mention in front by what it writes.
  void write(Derivation& derivation, Choice choice) {
    const Rest rest = rests_[derivation.rest];
    const Part& part = (*rest.parts)[rest.index];
    derivation.capital = derivation.capital || part.capital;
    derivation.rest =
        rest_from(syntax_.field(choice, part.column), 0, rest_from(*rest.parts, rest.index + 1, rest.next));
  }

  static double log_of_sum(const std::vector<Derivation>& derivations) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (const Derivation& derivation : derivations) largest = std::max(largest, derivation.log_probability);
    for (const Derivation& derivation : derivations) sum += std::exp(derivation.log_probability - largest);
    return largest + std::log(sum);
  }

  const Syntax& syntax_;
  Template whole_;
  std::vector<Rest> rests_;
  std::vector<Derivation> next_;
};

}  // namespace

std::vector<double> nats_per_byte(const Syntax& syntax, std::string_view text) { return Reader(syntax).read(text); }

}  // namespace inkling::grammar
