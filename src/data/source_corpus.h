// The text that `data:` settings name, be it from files that are read or from a grammar that is expanded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/source.h"
#include "data/source_reader.h"
#include "formats/token_file.h"

namespace inkling {

// The sources of a run, looked at but not read yet.
struct Corpus {
  SourceKind kind = SourceKind::text;
  std::vector<PlannedFile> files;   // of every kind, in the order they are read
  std::vector<Source> cut_sources;  // those whose tail is for validation: cut_tails() finds where it begins in `files`
  double val_fraction = 0;
  bool several_documents = false;  // if so, a separator ends each of them
  std::string jsonl_field, separator;
  TokenLayout layout = TokenLayout::with_header;  // of ready token files
  std::uint64_t stories = 0, grammar_seed = 0;    // of a grammar only
  std::uint64_t training_stories = 0;             // this many come first; the others are for validation

  bool has_json() const;  // a file of JSON, which data.jsonl_field is for
};

// Throws Error input for sources that are missing, empty or do not go together.
Corpus examine_corpus(const DataConfig& config);

// Finds where training ends in the sources that are cut, which must be done before they are visited. That is no part of
// examine_corpus(), because it reads every compressed file to its end, and a data set that is reused needs no cut.
void cut_tails(Corpus& corpus);

// Hands the text of a text or grammar corpus to `visitor`, showing progress under `label`. Returns the hash of each of
// corpus.files. Throws Error input also if a file is no longer what examine_corpus() saw.
std::vector<std::string> visit_corpus(const Corpus& corpus, const TextVisitor& visitor, const std::string& label);

// Which part of the sources is for training and which for validation.

// The tail of every source is for validation. The cut lies at (1 - val_fraction) of the source's bytes, moved to the
// nearest beginning of a document if one is nearer than val_fraction / 2 of the bytes. A single text without separators
// has no such place, so it is cut exactly there, rounded down to a whole character: for plain ASCII that is nanoGPT's
// data[int(0.9 * n):]. No cut lies inside a separator.
std::vector<PlannedFile> plan_tail(const std::vector<Source>& sources, double val_fraction,
                                   const std::string& separator = {});

// All of `sources` for one split.
std::vector<PlannedFile> plan_whole(const std::vector<Source>& sources, Split split);

// How long the texts of source files are, and what lies around a byte of one.

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
