// Tokens as text while they are made: never half a UTF-8 character.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace inkling {

class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}  // must outlive this

  // The text that is complete with this token; a character's first bytes wait for its last. Bytes that can never become
  // a character come out as U+FFFD.
  std::string push(Token token);

  // What is still waiting, as U+FFFD; the decoder is as new afterwards.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string waiting_;  // at most 3 bytes between calls
};

}  // namespace inkling
