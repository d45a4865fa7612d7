// Turns tokens into text while they are made, and never gives out half a UTF-8 character.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace inkling {

class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}  // must outlive this

  // Returns the text that is complete with this token; a character's first bytes wait for its last. Bytes that can
  // never become a character come out as U+FFFD.
  std::string push(Token token);

  // Returns what is still waiting, as U+FFFD. Afterwards the decoder is as good as new.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string waiting_;  // at most 3 bytes between calls
};

}  // namespace inkling
