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
  std::vector<PlannedFile> files;  // of every kind, in the order they are read
  bool several_documents = false;  // if so, a separator ends each of them
  std::string jsonl_field;
  TokenLayout layout = TokenLayout::with_header;  // of ready token files
  std::uint64_t stories = 0, grammar_seed = 0;    // of a grammar only
  std::uint64_t training_stories = 0;             // this many come first; the others are for validation

  bool has_jsonl() const;
};

// Throws Error input for sources that are missing, empty or do not go together.
Corpus examine_corpus(const DataConfig& config);

// Hands the text of a text or grammar corpus to `visitor`, showing progress under `label`. Returns the hash of each of
// corpus.files. Throws Error input also if a file is no longer what examine_corpus() saw.
std::vector<std::string> visit_corpus(const Corpus& corpus, const TextVisitor& visitor, const std::string& label);

}  // namespace inkling
