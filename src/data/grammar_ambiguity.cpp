#include "data/grammar_graph.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/strings.h"

namespace inkling::grammar {
namespace {

constexpr std::size_t max_pairs = 10'000'000;

// A place on the graph: at a node, or inside the label of an edge.
struct Walker {
  std::size_t node = 0;    // where it stands or is going
  std::string_view ahead;  // characters of the edge it has still to write; empty at a node
};

// Two walkers that have written the same text. At most one of them has characters ahead.
struct Pair {
  Walker one, other;
  std::size_t trail = 0;  // index into the trail of steps, to tell the text they share
};

class Search {
 public:
  Search(const Syntax& syntax, const Graph& graph) : syntax_(syntax), graph_(graph) {}

  void from(const Edge& one, const Edge& other) {
    seeds_ = {one.choice, other.choice};
    trail_.clear();
    open_.clear();
    meet({one.target, one.label}, {other.target, other.label}, 0);
    while (!open_.empty()) {
      const Pair pair = open_.back();
      open_.pop_back();
      go_on(pair);
    }
  }

 private:
  // The text written so far is kept as a tree of steps, so that pairs can share beginnings.
  struct Step {
    std::size_t before;
    std::string_view text;
  };

  // Compares what lies ahead of both and keeps the pair if the characters agree.
  void meet(Walker one, Walker other, std::size_t trail) {
    const std::size_t common = std::min(one.ahead.size(), other.ahead.size());
    if (one.ahead.substr(0, common) != other.ahead.substr(0, common)) return;
    trail_.push_back({trail, one.ahead.substr(0, common)});
    one.ahead.remove_prefix(common);
    other.ahead.remove_prefix(common);
    if (one.ahead.empty() && other.ahead.empty() && one.node == other.node) refuse(trail_.size());
    if (!one.ahead.empty()) std::swap(one, other);
    if (!visited_.insert(key(one, other)).second) return;
    if (visited_.size() > max_pairs) {
      throw syntax_.error(place(seeds_.first),
                          "this choice starts too many texts alike to prove that none can be made in "
                          "two ways; let its productions differ sooner");
    }
    open_.push_back({one, other, trail_.size()});
  }

  // `one` is at a node (meet() saw to that); it goes on by every edge. At the end it waits for the other.
  void go_on(const Pair& pair) {
    Walker walker = pair.one, other = pair.other;
    if (walker.node == Graph::end) {
      if (!other.ahead.empty()) return;
      std::swap(walker, other);
    }
    const Node& node = graph_.nodes[walker.node];
    for (std::size_t e = node.first_edge; e < node.first_edge + node.edge_count; ++e) {
      meet({graph_.edges[e].target, graph_.edges[e].label}, other, pair.trail);
    }
  }

  static std::string key(const Walker& one, const Walker& other) {
    std::string bytes;
    for (const std::size_t number :
         {one.node, other.node, other.ahead.size(),
          reinterpret_cast<std::size_t>(other.ahead.empty() ? nullptr : other.ahead.data())}) {
      bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    return bytes;
  }

  Place place(Choice choice) const { return syntax_.rules[choice.rule].productions[choice.production].place; }

  [[noreturn]] void refuse(std::size_t trail) const {
    std::vector<std::string> steps;
    for (; trail != 0; trail = trail_[trail - 1].before) steps.emplace_back(trail_[trail - 1].text);
    std::reverse(steps.begin(), steps.end());
    const Place second = place(seeds_.second);
    throw syntax_.error(place(seeds_.first),
                        str("this production and the one at ", syntax_.file, ":", second.line, ":", second.column,
                            " can both go on with ", quote(join(steps, "")),
                            ", so a text could be made in two ways and "
                            "its probability would not be known; let the two differ in what they write here"));
  }

  const Syntax& syntax_;
  const Graph& graph_;
  std::pair<Choice, Choice> seeds_;
  std::vector<Step> trail_;
  std::vector<Pair> open_;
  std::unordered_set<std::string> visited_;  // for all seeds: a pair that leads nowhere does so from every seed
};

}  // namespace

void refuse_ambiguity(const Syntax& syntax, const Graph& graph) {
  Search search(syntax, graph);
  for (const Node& node : graph.nodes) {
    if (!node.decides) continue;
    for (std::size_t i = 0; i < node.edge_count; ++i) {
      for (std::size_t j = i + 1; j < node.edge_count; ++j) {
        search.from(graph.edges[node.first_edge + i], graph.edges[node.first_edge + j]);
      }
    }
  }
}

}  // namespace inkling::grammar
