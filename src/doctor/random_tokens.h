// What a run can be timed with when its data has not been made: random tokens, on which the time does not depend.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "formats/token_file.h"

namespace inkling {

// The size of the vocabulary that the data would come with, as far as the settings say; 65, tiny Shakespeare's, for
// characters, whose number the text decides.
std::uint64_t expected_vocabulary(const DataConfig& data);

// A sequence of `count` random tokens below vocab_size. Its file is in the folder for temporary files (TMPDIR), and has
// no name any more, so nothing is left of it however the program ends. Error environment if it cannot be written.
TokenSequence random_tokens(std::uint64_t vocab_size, std::uint64_t count);

}  // namespace inkling
