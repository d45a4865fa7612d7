// Proves that no text of a grammar can be made in two ways, so that the probability of a text is that of its
// derivation.
#pragma once

#include "data/grammar_graph.h"

namespace inkling::grammar {

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

}  // namespace inkling::grammar
