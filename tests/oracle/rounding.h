// How far a result in floating point may be from the exact one. Limits in tests are derived from these, so that they
// hold whatever the instruction set, the library or the number of threads makes of the order of a sum.
#pragma once

#include <cmath>

namespace inkling::oracle {

// The largest relative error of one rounding.
inline constexpr double float32_roundoff = 0x1p-24, bfloat16_roundoff = 0x1p-8;

// The relative error of what has gone through n roundings, one behind the other: in a sum of n terms, and in a chain of
// operations the sum of their numbers. Roundings that know nothing of each other add up like steps of a random walk, to
// sqrt(n) roundoffs and not n (Higham, Mary 2019: more than lambda sqrt(n) u is rarer than 2 exp(-lambda^2 / 2)). The
// factor is 4: a rounding is spread over +-u, with a standard deviation below 0.58 u, so that 4 sqrt(n) u is seven
// standard deviations. Where terms cancel, the error is relative to what they are, not to what is left of them: to be
// taken with the size of a row, or the root of the number of terms.
inline double rounding_error(double n, double roundoff = float32_roundoff) { return 4.0 * std::sqrt(n) * roundoff; }

// The absolute error of a sum of `terms` numbers of size 1 and either sign, each of which has gone through `own`
// roundings before: its partial sums are as large as sqrt(terms).
inline double sum_error(double terms, double own = 1.0) { return rounding_error(terms + own) * std::sqrt(terms); }

// A softmax makes of an error of its scores the same relative error of its results, so that a rounding of a score of
// size s counts s^2 times (none counts less than once). The size is the largest score's, or where a whole row is judged
// by its norm, twice the standard deviation: there most of the weight lies.
inline double in_softmax(double roundings, double score) { return roundings * std::fmax(1.0, score * score); }

// Functions like e^x, tanh or 1 / sqrt(x) are right to two units of the last place, four roundoffs, which count like
// sixteen roundings.
inline constexpr double function_roundings = 16.0;

// What lies between the numbers that a computation reads and one of its results.
struct Roundings {
  double sums = 0;  // the lengths of all sums, one behind the other: in float32, whatever the dtype of the tensors
  double kept = 1;  // the tensors on the way, the result included: rounded to that dtype
};

inline double rounding_error(const Roundings& roundings, double kept_roundoff) {
  return rounding_error(roundings.sums) + rounding_error(roundings.kept, kept_roundoff);
}

}  // namespace inkling::oracle
