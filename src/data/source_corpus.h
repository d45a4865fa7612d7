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

}  // namespace inkling
