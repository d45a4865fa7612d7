// How long the texts of source files are, and what lies around a byte of one.
#pragma once

#include <cstdint>
#include <vector>

#include "data/source.h"

namespace inkling {

// The bytes of text in each of the source's files. A compressed one does not say how many it has (gzip only modulo 2^32
// and of its last member, zstd only if it likes), so it is read to its end, showing progress. Throws Error input for
// one that is damaged.
std::vector<std::uint64_t> text_sizes(const Source& source);

// Where the line that holds a byte begins, where the next one begins (or the text ends), and where the character that
// holds it begins. A text file is one line here; in a .json file each of its values (JsonElements) is one.
struct Surroundings {
  std::uint64_t line, next_line, character;
};

// `at` is above 0 and below `size`, that of the file's text. A compressed file is read from its beginning to there.
Surroundings look_around(const SourceFile& source, std::uint64_t size, std::uint64_t at);

}  // namespace inkling
