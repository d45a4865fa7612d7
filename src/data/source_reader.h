// The text of source files as a stream of pieces that a tokenizer takes, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "data/source.h"

namespace inkling {

enum class Split { train, validation };

// A file and where it is cut: what begins before `train_bytes` is for training, the rest for validation.
struct PlannedFile {
  SourceFile file;
  std::uint64_t train_bytes = 0;
};

struct Place {
  const std::filesystem::path* path = nullptr;
  std::uint64_t line = 0;  // from 1; 0 if the text is not a line of the file

  std::string text() const;  // "notes.txt:12", "fables.grammar"
};

// What a reader of text is told, in the order of the text.
struct TextVisitor {
  std::function<void(Split, std::string_view)> piece;     // cut by next_line_length()
  std::function<void(Split, const Place&)> end_document;  // after the last piece of a document (never an empty one)
  std::function<void(std::uint64_t)> advance;             // bytes of the file read since the last call
};

// Reads a text or .jsonl file once, from its beginning to its end, and returns the hash of its bytes. A byte order mark
// at the beginning of a file does not count as text. A document that is cut between the splits ends in both. Throws
// Error input with file and line for a line of .jsonl that is not an object with a string in `jsonl_field`. If
// visitor.piece throws Error input, file and line are put in front of its message.
std::string visit_file(const PlannedFile& planned, const std::string& jsonl_field, const TextVisitor& visitor);

// Does the same for a text that is in memory already: one document at `place`.
void visit_text(Split split, std::string_view text, const Place& place, const TextVisitor& visitor);

}  // namespace inkling
