// Measures what this machine can do, and says what `auto` makes of it.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"
#include "doctor/facts.h"
#include "formats/token_file.h"
#include "runtime/device.h"

namespace inkling::doctor {

// What `runtime` can do at most, measured in about half a second. Counts of threads in between are left out.
Speed measure_speed(const Runtime& runtime, const Facts& facts);

// The peak for a number of threads: what was measured for the nearest one, in proportion.
double product_flops(const Speed& speed, int threads);

// What `auto` means for each setting under runtime:, and why; it was decided by resolve_runtime() alone.
Choices explain_choices(const Runtime& runtime, const Facts& facts);

}  // namespace inkling::doctor

// What a run can be timed with when its data has not been made: random tokens, on which the time does not depend.

namespace inkling {

// The size of the vocabulary that the data would come with, as far as the settings say; 65, tiny Shakespeare's, for
// characters, whose number the text decides.
std::uint64_t expected_vocabulary(const DataConfig& data);

// A sequence of `count` random tokens below vocab_size. Its file is in the folder for temporary files (TMPDIR), and has
// no name any more, so nothing is left of it however the program ends. Error environment if it cannot be written.
TokenSequence random_tokens(std::uint64_t vocab_size, std::uint64_t count);

}  // namespace inkling
