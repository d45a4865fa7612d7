#include "data/grammar_graph.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "base/strings.h"

namespace inkling::grammar {
namespace {

constexpr std::size_t max_edges = 4'000'000;
constexpr std::size_t max_variables = 256;
using Variables = std::bitset<max_variables>;

// What is still to be written: the parts of a template from `index` on, then the rest. Equal ones have equal numbers,
// and 0 is nothing.
struct Rest {
  const Template* parts = nullptr;
  std::size_t index = 0;
  std::size_t next = 0;
  Variables needed;  // variables that it may mention
};

struct State {
  std::size_t rest = 0;
  std::vector<Choice> remembered;  // by variable
  bool capital = false;            // the next character is written as a capital

  std::string key() const {
    std::string bytes(reinterpret_cast<const char*>(remembered.data()), remembered.size() * sizeof(Choice));
    bytes.append(reinterpret_cast<const char*>(&rest), sizeof rest);
    bytes.push_back(capital ? '^' : ' ');
    return bytes;
  }
};

class Builder {
 public:
  Builder(const Syntax& syntax, Keep keep) : syntax_(syntax), keep_(keep), rests_(1) {
    if (syntax.variables.size() > max_variables) {
      throw syntax.error({1, 1}, str("more than ", max_variables, " variables; reuse names that are no longer needed"));
    }
    for (std::size_t rule = 0; rule < syntax.rules.size(); ++rule) candidates_.push_back(candidates_of(rule));
  }

  Graph build() {
    graph_.nodes.resize(2);
    State first{.rest = 0, .remembered = std::vector<Choice>(syntax_.variables.size())};
    // The rule `story` is chosen like any other, by a template that no file holds.
    const Template whole{{.kind = Part::Kind::choose, .text = {}, .rule = syntax_.start, .place = {1, 1}}};
    first.rest = rest_from(whole, 0, 0);
    graph_.nodes[Graph::start] = {.first_edge = 0, .edge_count = 1, .decides = false};
    add_edge(first, 1, Choice{syntax_.start, 0});
    while (!open_.empty()) {
      const auto [node, state] = std::move(open_.back());
      open_.pop_back();
      branch(node, state);
    }
    return std::move(graph_);
  }

 private:
  // Productions that a path must tell apart. For the longest path, a production of a plain rule can be left out if
  // another is at least as long in every column.
  std::vector<std::size_t> candidates_of(std::size_t rule_id) const {
    const Rule& rule = syntax_.rules[rule_id];
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < rule.productions.size(); ++i) {
      bool keep = true;
      for (std::size_t j = 0; j < rule.productions.size() && keep_ == Keep::longest && rule.plain; ++j) {
        const bool covers = covers_every_length(rule.productions[j], rule.productions[i]);
        const bool equal = covers && covers_every_length(rule.productions[i], rule.productions[j]);
        if (covers && (!equal || j < i)) keep = false;
      }
      if (keep) result.push_back(i);
    }
    return result;
  }

  static bool covers_every_length(const Production& longer, const Production& shorter) {
    const auto length = [](const Template& field) { return field.empty() ? 0 : field.front().text.size(); };
    for (std::size_t i = 0; i < longer.fields.size(); ++i) {
      if (length(longer.fields[i]) < length(shorter.fields[i])) return false;
    }
    return true;
  }

  // The number of "`parts` from `index` on, then `next`".
  std::size_t rest_from(const Template& parts, std::size_t index, std::size_t next) {
    if (index == parts.size()) return next;
    const auto [entry, is_new] = rest_ids_.try_emplace({&parts, index, next}, rests_.size());
    if (is_new) {
      Variables needed = rests_[next].needed;
      for (std::size_t i = index; i < parts.size(); ++i) needed |= needed_by(parts[i]);
      rests_.push_back({&parts, index, next, needed});
    }
    return entry->second;
  }

  Variables needed_by(const Part& part) {
    if (part.kind == Part::Kind::text) return {};
    if (part.kind == Part::Kind::choose) return needed_by_column(part.rule, part.column);
    Variables needed;
    needed.set(part.variable);
    for (const std::size_t rule : syntax_.bound_rules[part.variable]) needed |= needed_by_column(rule, part.column);
    return needed;
  }

  Variables needed_by_column(std::size_t rule, std::size_t column) {
    if (syntax_.rules[rule].plain) return {};
    const auto known = needed_.find({rule, column});
    if (known != needed_.end()) return known->second;
    Variables needed;
    for (std::size_t i = 0; i < syntax_.rules[rule].productions.size(); ++i) {
      for (const Part& part : syntax_.field({rule, i}, column)) needed |= needed_by(part);
    }
    return needed_[{rule, column}] = needed;
  }

  void branch(std::size_t node, const State& state) {
    const Part& part = current(state);
    const bool decides = part.kind == Part::Kind::choose;
    const std::size_t rule = decides ? part.rule : state.remembered[part.variable].rule;
    graph_.nodes[node] = {
        .first_edge = graph_.edges.size(), .edge_count = candidates_[rule].size(), .decides = decides};
    // The edges of one node are stored together, so their targets are opened only after all of them.
    for (const std::size_t production : candidates_[rule]) {
      State next = state;
      write(next, Choice{rule, production});
      add_edge(next, syntax_.rules[rule].productions[production].probability, Choice{rule, production});
    }
  }

  const Part& current(const State& state) const { return (*rests_[state.rest].parts)[rests_[state.rest].index]; }

  // Replaces the choice or mention in front of `state` by what it writes.
  void write(State& state, Choice choice) {
    const Rest rest = rests_[state.rest];
    const Part& part = (*rest.parts)[rest.index];
    if (part.kind == Part::Kind::choose && part.variable != none) {
      const bool forget = keep_ == Keep::structure && syntax_.rules[choice.rule].plain;
      state.remembered[part.variable] = {choice.rule, forget ? none : choice.production};
    }
    state.capital = state.capital || part.capital;
    state.rest = rest_from(syntax_.field(choice, part.column), 0, rest_from(*rest.parts, rest.index + 1, rest.next));
  }

  void add_edge(State state, double probability, Choice choice) {
    std::string label;
    advance(state, label);
    for (std::size_t i = 0; i < state.remembered.size(); ++i) {
      if (!rests_[state.rest].needed[i]) state.remembered[i] = {};
    }
    const std::size_t target = state.rest == 0 ? Graph::end : node_of(state);
    graph_.edges.push_back({std::move(label), probability, target, choice});
    if (graph_.edges.size() > max_edges) {
      throw syntax_.error({1, 1},
                          "too many combinations of remembered productions to look at; remember fewer of those "
                          "whose columns hold braces, or mention them sooner");
    }
  }

  // Writes what is certain, up to the next branch or the end.
  void advance(State& state, std::string& label) {
    while (state.rest != 0) {
      const Part& part = current(state);
      if (part.kind == Part::Kind::text) {
        const Rest rest = rests_[state.rest];
        append(label, part.text, state.capital);
        state.rest = rest_from(*rest.parts, rest.index + 1, rest.next);
        if (label.size() > longest_text) throw syntax_.error(part.place, "a text would be longer than 64 KiB");
        continue;
      }
      Choice choice{part.rule, none};
      if (part.kind == Part::Kind::mention) choice = state.remembered[part.variable];
      if (choice.rule == none) {
        throw syntax_.error(part.place, str("some text comes here before anything is chosen for ",
                                            quote(syntax_.variables[part.variable]), "; write {",
                                            syntax_.variables[part.variable], "=rule} earlier"));
      }
      if (choice.production == none) {
        if (candidates_[choice.rule].size() > 1) return;
        choice.production = candidates_[choice.rule].front();
      }
      write(state, choice);
    }
  }

  static void append(std::string& label, const std::string& text, bool& capital) {
    label += text;
    if (!capital || text.empty()) return;
    char& first = label[label.size() - text.size()];
    if (first >= 'a' && first <= 'z') first = static_cast<char>(first - 'a' + 'A');
    capital = false;
  }

  std::size_t node_of(const State& state) {
    const auto [entry, is_new] = node_ids_.try_emplace(state.key(), graph_.nodes.size());
    if (is_new) {
      graph_.nodes.emplace_back();
      open_.emplace_back(entry->second, state);
    }
    return entry->second;
  }

  const Syntax& syntax_;
  Keep keep_;
  Graph graph_;
  std::vector<std::vector<std::size_t>> candidates_;  // by rule
  std::vector<Rest> rests_;
  std::map<std::tuple<const Template*, std::size_t, std::size_t>, std::size_t> rest_ids_;
  std::map<std::pair<std::size_t, std::size_t>, Variables> needed_;
  std::unordered_map<std::string, std::size_t> node_ids_;
  std::vector<std::pair<std::size_t, State>> open_;
};

// Nodes in an order in which every edge leads to an earlier one.
std::vector<std::size_t> targets_first(const Graph& graph) {
  std::vector<std::size_t> incoming(graph.nodes.size()), order{Graph::start};
  for (const Edge& edge : graph.edges) ++incoming[edge.target];
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Node node = graph.nodes[order[i]];
    for (std::size_t e = node.first_edge; e < node.first_edge + node.edge_count; ++e) {
      if (--incoming[graph.edges[e].target] == 0) order.push_back(graph.edges[e].target);
    }
  }
  std::reverse(order.begin(), order.end());
  return order;
}

// The value of `start`, where the end has 0 and a node gets combine(sum so far, edge, value of its target) over its
// edges.
template <typename Combine>
double value_at_start(const Graph& graph, const Combine& combine) {
  std::vector<double> values(graph.nodes.size());
  for (const std::size_t id : targets_first(graph)) {
    const Node& node = graph.nodes[id];
    for (std::size_t e = node.first_edge; e < node.first_edge + node.edge_count; ++e) {
      values[id] = combine(values[id], node, graph.edges[e], values[graph.edges[e].target]);
    }
  }
  return values[Graph::start];
}

}  // namespace

Graph build_graph(const Syntax& syntax, Keep keep) { return Builder(syntax, keep).build(); }

double entropy(const Graph& graph) {
  return value_at_start(graph, [](double sum, const Node& node, const Edge& edge, double target) {
    return sum + edge.probability * (target - (node.decides ? std::log(edge.probability) : 0.0));
  });
}

double mean_length(const Graph& graph) {
  return value_at_start(graph, [](double sum, const Node&, const Edge& edge, double target) {
    return sum + edge.probability * (target + static_cast<double>(edge.label.size()));
  });
}

std::size_t longest_length(const Graph& graph) {
  return static_cast<std::size_t>(value_at_start(graph, [](double most, const Node&, const Edge& edge, double target) {
    return std::max(most, target + static_cast<double>(edge.label.size()));
  }));
}

}  // namespace inkling::grammar
