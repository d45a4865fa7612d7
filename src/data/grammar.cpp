#include "data/grammar.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/files.h"
#include "base/random.h"
#include "base/strings.h"
#include "data/grammar_graph.h"
#include "data/grammar_syntax.h"

namespace inkling::grammar {
namespace {

// No grammar that a person writes nests this deep. The limit keeps every recursion over the rules shallow.
constexpr std::size_t max_nesting = 200;

// Makes indices of the names in a grammar; then refuses recursion, unused rules and useless weights.
class Resolver {
 public:
  explicit Resolver(UnresolvedSyntax unresolved)
      : syntax_(std::move(unresolved.syntax)), references_(std::move(unresolved.references)) {}

  Syntax resolve() {
    for (std::size_t i = 0; i < syntax_.rules.size(); ++i) rule_ids_[syntax_.rules[i].name] = i;
    if (!rule_ids_.count("story")) throw syntax_.error({1, 1}, "there is no rule `story:`, where every text begins");
    syntax_.start = rule_ids_["story"];
    collect_variables();
    for (Rule& rule : syntax_.rules) resolve_rule(rule);
    visit(syntax_.start, 0, 0);
    for (std::size_t i = 0; i < syntax_.rules.size(); ++i) {
      if (!used_.count(i)) {
        throw syntax_.error(syntax_.rules[i].place, str("nothing in `story` leads to the rule ",
                                                        quote(syntax_.rules[i].name), "; use it or take it out"));
      }
    }
    return std::move(syntax_);
  }

 private:
  // A variable exists where some {variable=rule} does; its bindings say which rules it can remember.
  void collect_variables() {
    for_each_reference([&](const Part& part, const Reference& reference) {
      if (reference.variable.empty()) return;
      const std::size_t rule = known_rule(reference.name, part.place);
      if (rule_ids_.count(reference.variable)) {
        throw syntax_.error(part.place, str(quote(reference.variable), " is a rule; give the variable another name"));
      }
      const auto [entry, is_new] = variable_ids_.try_emplace(reference.variable, syntax_.variables.size());
      if (is_new) {
        syntax_.variables.push_back(reference.variable);
        syntax_.bound_rules.emplace_back();
      }
      std::vector<std::size_t>& rules = syntax_.bound_rules[entry->second];
      if (!std::count(rules.begin(), rules.end(), rule)) rules.push_back(rule);
    });
  }

  template <typename Visit>
  void for_each_reference(const Visit& visit_reference) {
    for (const Rule& rule : syntax_.rules) {
      for (const Production& production : rule.productions) {
        for (const Template& field : production.fields) {
          for (const Part& part : field) {
            if (part.kind == Part::Kind::choose) visit_reference(part, references_[part.rule]);
          }
        }
      }
    }
  }

  std::size_t known_rule(const std::string& name, Place place) const {
    if (const auto found = rule_ids_.find(name); found != rule_ids_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [rule_name, id] : rule_ids_) known.push_back(rule_name);
    for (const auto& [variable_name, id] : variable_ids_) {
      if (variable_name != name) known.push_back(variable_name);
    }
    const auto nearest = nearest_name(name, known);
    throw syntax_.error(place, str("there is no rule ", quote(name),
                                   nearest ? str("; do you mean ", quote(*nearest), "?")
                                           : str("; add `", name, ":` and its productions")));
  }

  void resolve_rule(Rule& rule) {
    if (rule.productions.empty()) {
      throw syntax_.error(rule.place, str("the rule ", quote(rule.name), " has no production; add a line `  * text`"));
    }
    double total = 0;
    for (const Production& production : rule.productions) total += production.weight;
    for (Production& production : rule.productions) {
      production.probability = production.weight / total;
      if (!(production.probability > 0 && total < 1e300)) {
        throw syntax_.error(production.place, "weights of one rule must be of comparable size");
      }
      for (Template& field : production.fields) {
        for (Part& part : field) {
          if (part.kind == Part::Kind::text) continue;
          rule.plain = false;
          resolve_part(part, references_[part.rule]);
        }
      }
    }
  }

  void resolve_part(Part& part, const Reference& reference) {
    const auto variable = variable_ids_.find(reference.variable.empty() ? reference.name : reference.variable);
    part.variable = variable == variable_ids_.end() ? none : variable->second;
    if (reference.variable.empty() && part.variable != none) {
      part.kind = Part::Kind::mention;
      part.rule = none;
      for (const std::size_t rule : syntax_.bound_rules[part.variable]) resolve_column(part, rule, reference.column);
    } else {
      part.rule = known_rule(reference.name, part.place);
      resolve_column(part, part.rule, reference.column);
    }
  }

  void resolve_column(Part& part, std::size_t rule, const std::string& name) const {
    const auto found = std::find(syntax_.columns.begin(), syntax_.columns.end(), name);
    part.column = static_cast<std::size_t>(found - syntax_.columns.begin());
    if (found != syntax_.columns.end() && syntax_.has_column(rule, part.column)) return;
    const Rule& without = syntax_.rules[rule];
    throw syntax_.error(part.place, str("the rule ", quote(without.name), " (line ", without.place.line,
                                        ") has no column ", quote(name), "; add it to that line and its productions"));
  }

  // Depth first over (rule, column): meeting one that is still open is a recursion.
  void visit(std::size_t rule, std::size_t column, std::size_t depth) {
    enum : int { open = 1, closed = 2 };
    int& state = states_[{rule, column}];
    if (state == closed) return;
    used_[rule] = true;
    state = open;
    for (std::size_t i = 0; i < syntax_.rules[rule].productions.size(); ++i) {
      for (const Part& part : syntax_.field({rule, i}, column)) {
        if (part.kind == Part::Kind::text) continue;
        const std::vector<std::size_t> targets =
            part.kind == Part::Kind::choose ? std::vector<std::size_t>{part.rule} : syntax_.bound_rules[part.variable];
        for (const std::size_t target : targets) {
          if (const auto seen = states_.find({target, part.column}); seen != states_.end() && seen->second == open) {
            throw syntax_.error(part.place, str("the rule ", quote(syntax_.rules[target].name),
                                                " leads back to itself here; stories must be finite"));
          }
          if (depth > max_nesting) throw syntax_.error(part.place, "rules are nested more than 200 deep");
          visit(target, part.column, depth + 1);
        }
      }
    }
    states_[{rule, column}] = closed;
  }

  Syntax syntax_;
  std::vector<Reference> references_;
  std::map<std::string, std::size_t> rule_ids_, variable_ids_;
  std::map<std::pair<std::size_t, std::size_t>, int> states_;
  std::map<std::size_t, bool> used_;
};

}  // namespace

Syntax resolve_names(UnresolvedSyntax unresolved) { return Resolver(std::move(unresolved)).resolve(); }

}  // namespace inkling::grammar

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
