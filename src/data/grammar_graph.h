// All texts of a grammar as one finite graph without cycles: a text is a path from `start` to `end`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "data/grammar_syntax.h"

namespace inkling::grammar {

struct Edge {
  std::string label;       // what is written on the way to the target
  double probability = 1;  // of this edge among those of its node
  std::size_t target = 0;
  Choice choice;  // the production this edge stands for
};

struct Node {
  std::size_t first_edge = 0, edge_count = 0;
  // Whether its edges are a choice of the grammar. Otherwise they are the values that a variable may have here.
  bool decides = false;
};

struct Graph {
  static constexpr std::size_t end = 0, start = 1;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
};

// A node is what is still to be written together with the variables it will need. Remembering every value would make
// the graph as large as the product of all tables, so the values of variables that remember mere text (a name, a
// colour) are not kept apart where they do not matter:
enum class Keep {
  // Such a variable is forgotten: a mention of it has one edge per value, with the value's probability. That is its
  // exact distribution there, because nothing but mentions depends on such a variable. The paths are a superset of the
  // grammar's texts; expected values that add up along a path (entropy, length) are exact.
  structure,
  // Such a variable takes only values that are not shorter than another one in every column, and keeps them: the
  // longest path is the longest text.
  longest,
};

// Throws Error input where a variable is mentioned before it is chosen, or the graph is too large to hold.
Graph build_graph(const Syntax& syntax, Keep keep);

double entropy(const Graph& graph);              // nats per text, of a graph that keeps the structure
double mean_length(const Graph& graph);          // bytes per text, of a graph that keeps the structure
std::size_t longest_length(const Graph& graph);  // bytes, of a graph that keeps the longest

}  // namespace inkling::grammar
