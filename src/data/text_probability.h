// How probable a text is under a grammar, byte by byte.
#pragma once

#include <string_view>
#include <vector>

#include "data/grammar_syntax.h"

namespace inkling::grammar {

// Returns -log P(byte | bytes before it) for each byte, then -log P(end | text): text.size() + 1 numbers, infinite from
// the first byte on that no text of the grammar has there.
//
// It follows all derivations that agree with the text so far at once. Every unfinished derivation has some ending, so
// their probabilities add up to that of the beginning, and the ratio of two beginnings is what a byte costs (the
// forward algorithm).
std::vector<double> nats_per_byte(const Syntax& syntax, std::string_view text);

}  // namespace inkling::grammar
