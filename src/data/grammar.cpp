#include "data/grammar.h"

#include <cmath>

#include "base/files.h"
#include "base/random.h"
#include "data/grammar_ambiguity.h"
#include "data/grammar_graph.h"
#include "data/grammar_syntax.h"
#include "data/text_probability.h"

namespace inkling {

using grammar::Choice;
using grammar::Part;
using grammar::Template;

struct Grammar::Rules {
  grammar::Syntax syntax;
};

namespace {

// Writes one story, drawing one number per choice from its own random stream.
class Writer {
 public:
  Writer(const grammar::Syntax& syntax, std::uint64_t key)
      : syntax_(syntax), key_(key), remembered_(syntax.variables.size()) {}

  Story write() {
    write_choice({.kind = Part::Kind::choose, .text = {}, .rule = syntax_.start, .place = {}});
    return std::move(story_);
  }

 private:
  void write_template(const Template& parts) {
    for (const Part& part : parts) {
      if (part.kind == Part::Kind::text) {
        write_text(part.text);
      } else if (part.kind == Part::Kind::choose) {
        write_choice(part);
      } else {
        capital_ = capital_ || part.capital;
        write_template(syntax_.field(remembered_[part.variable], part.column));
      }
    }
  }

  void write_choice(const Part& part) {
    const Choice choice{part.rule, draw(syntax_.rules[part.rule])};
    if (part.variable != grammar::none) remembered_[part.variable] = choice;
    capital_ = capital_ || part.capital;
    write_template(syntax_.field(choice, part.column));
  }

  std::size_t draw(const grammar::Rule& rule) {
    if (rule.productions.size() == 1) return 0;
    double left = random_unit(key_, draws_++);
    std::size_t chosen = 0;
    while (chosen + 1 < rule.productions.size() && left >= rule.productions[chosen].probability) {
      left -= rule.productions[chosen++].probability;
    }
    story_.nats -= std::log(rule.productions[chosen].probability);
    return chosen;
  }

  void write_text(const std::string& text) {
    const std::size_t begin = story_.text.size();
    story_.text += text;
    if (!capital_ || text.empty()) return;
    char& first = story_.text[begin];
    if (first >= 'a' && first <= 'z') first = static_cast<char>(first - 'a' + 'A');
    capital_ = false;
  }

  const grammar::Syntax& syntax_;
  std::uint64_t key_;
  std::uint64_t draws_ = 0;
  std::vector<Choice> remembered_;
  bool capital_ = false;
  Story story_;
};

}  // namespace

Grammar::Grammar(std::unique_ptr<Rules> rules) : rules_(std::move(rules)) {
  const grammar::Graph graph = grammar::build_graph(rules_->syntax, grammar::Keep::structure);
  grammar::refuse_ambiguity(rules_->syntax, graph);
  entropy_ = grammar::entropy(graph);
  mean_length_ = grammar::mean_length(graph);
  longest_ = grammar::longest_length(grammar::build_graph(rules_->syntax, grammar::Keep::longest));
}

Grammar::~Grammar() = default;
Grammar::Grammar(Grammar&&) noexcept = default;

Grammar Grammar::parse(std::string_view source, std::string_view name) {
  return Grammar(std::make_unique<Rules>(Rules{grammar::read_syntax(source, name)}));
}

Grammar Grammar::load(const std::filesystem::path& path) { return parse(read_small_file(path), path.string()); }

Story Grammar::expand(std::uint64_t seed, std::uint64_t index) const {
  return Writer(rules_->syntax, random_key(seed, Purpose::grammar, index)).write();
}

std::vector<double> Grammar::nats_per_byte(std::string_view text) const {
  return grammar::nats_per_byte(rules_->syntax, text);
}

double Grammar::nats(std::string_view text) const {
  double sum = 0;
  for (const double nats : nats_per_byte(text)) sum += nats;
  return sum;
}

std::size_t Grammar::production_count() const {
  std::size_t count = 0;
  for (const grammar::Rule& rule : rules_->syntax.rules) count += rule.productions.size();
  return count;
}

}  // namespace inkling
