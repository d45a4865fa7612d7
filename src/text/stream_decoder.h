// Turns tokens into text while they are made, and never gives out half a UTF-8 character.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace inkling {

class StreamDecoder {
 public:
  // Tokens that begin a document lose the tokenizer's prefix; those that follow others keep their space. The tokenizer
  // must outlive this.
  StreamDecoder(const Tokenizer& tokenizer, bool begins_document)
      : tokenizer_(tokenizer), prefix_(begins_document ? tokenizer.prefix() : "") {}

  // Returns the text that is complete with this token; a character's first bytes wait for its last. Bytes that can
  // never become a character come out as U+FFFD.
  std::string push(Token token);

  // Returns what is still waiting, as U+FFFD. Tokens pushed afterwards begin a document.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string_view prefix_;  // has not come yet
  std::string waiting_;      // at most 3 bytes between calls
};

}  // namespace inkling
