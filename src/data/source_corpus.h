// The text that `data:` settings name, whatever it comes from: files that are read or a grammar that is expanded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/source.h"
#include "data/source_reader.h"

namespace inkling {

// Looked at, not read yet.
struct Corpus {
  SourceKind kind = SourceKind::text;
  std::vector<PlannedFile> files;  // in the order they are read; every kind
  bool several_documents = false;  // then a separator ends each of them
  std::string jsonl_field;
  std::uint64_t stories = 0, grammar_seed = 0;  // grammar alone
  std::uint64_t training_stories = 0;           // the first so many; the others are for validation

  bool has_jsonl() const;
};

// Error input for sources that are missing, empty or do not go together.
Corpus examine_corpus(const DataConfig& config);

// Hands the text of a text or grammar corpus to `visitor`, showing progress under `label`. Returns the hash of each of
// corpus.files. Error input also if a file is not what examine_corpus() saw.
std::vector<std::string> visit_corpus(const Corpus& corpus, const TextVisitor& visitor, const std::string& label);

}  // namespace inkling
