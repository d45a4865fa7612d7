// How long the texts of source files are, and what lies around a byte of one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/source.h"

namespace inkling {

// The bytes of text in each of the source's files. A compressed one does not say how many it has (gzip only modulo 2^32
// and of its last member, zstd only if it likes), so it is read to its end, showing progress. Throws Error input for
// one that is damaged.
std::vector<std::uint64_t> text_sizes(const Source& source);

// Where the document that holds a byte begins, where the next one begins (or the text ends), and where the character
// that holds it begins. A document is a line of .jsonl, or a value of .json (JsonElements); any other file is one, but
// where `separator`, if it is not empty, ends one: a byte inside of that counts as a character up to its end.
struct Surroundings {
  std::uint64_t document, next_document, character;
};

// `at` is above 0 and below `size`, that of the file's text. A compressed file is read from its beginning to there.
Surroundings look_around(const SourceFile& source, std::uint64_t size, std::uint64_t at,
                         const std::string& separator = {});

}  // namespace inkling
