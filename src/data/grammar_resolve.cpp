// Names in a grammar become indices; then recursion, unused rules and useless weights are refused.
#include <algorithm>
#include <map>

#include "base/strings.h"
#include "data/grammar_syntax.h"

namespace inkling::grammar {
namespace {

// No grammar that a person writes nests this deep. The limit keeps every recursion over the rules shallow.
constexpr std::size_t max_nesting = 200;

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
