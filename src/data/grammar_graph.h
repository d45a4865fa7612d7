// All texts of a grammar as one finite graph without cycles, in which a text is a path from `start` to `end`; and what
// is computed from it: entropy, lengths, whether every text can be made in one way only, and how probable a text is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
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

// Proves that no text of a grammar can be made in two ways, so that the probability of a text is that of its
// derivation.

// Throws Error input naming two productions of one choice, at file:line:column, and the text that both can lead to.
//
// Method. Two derivations of one text have a first choice in which they differ. Up to it they chose alike, so they
// stand at the same node of the graph, whose edges are that choice. From there two walkers go on, each free to take any
// edges, as long as they write the same characters; one may be ahead of the other by part of a label. If both can come
// to the same node with nothing ahead, the grammar is refused. Soundness. A text with two derivations lets both walkers
// arrive at the end, which is one node. Where a variable was forgotten (Keep::structure), a walker may take any value:
// it can do more than the grammar allows, never less. So every ambiguous grammar is refused. Some others are refused
// too: where alternatives write the same text, join, and only a later mention would tell which one it was. Cost. Pairs
// of walkers are visited once each; nearly all differ in the first character.
void refuse_ambiguity(const Syntax& syntax, const Graph& graph);

// How probable a text is under a grammar, byte by byte.

// Returns -log P(byte | bytes before it) for each byte, then -log P(end | text): text.size() + 1 numbers, infinite from
// the first byte on that no text of the grammar has there.
//
// It follows all derivations that agree with the text so far at once. Every unfinished derivation has some ending, so
// their probabilities add up to that of the beginning, and the ratio of two beginnings is what a byte costs (the
// forward algorithm).
std::vector<double> nats_per_byte(const Syntax& syntax, std::string_view text);

}  // namespace inkling::grammar
