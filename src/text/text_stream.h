// Ends a text where one of several strings appears in it, while the text is still being made.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace inkling {

// Text goes in by pieces of any length and comes out as soon as it is certain that it does not belong to a stop string.
// What comes out in all does not depend on how the text was cut: everything before the stop string that is complete
// first (of two that are complete with the same character, the longer one).
class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops);  // Error input for an empty one

  std::string push(std::string_view piece);  // returns the text that is certain now; nothing more after found()
  std::string finish();                      // to be called at the text's end: returns what was held back
  bool found() const { return found_; }

 private:
  std::size_t held_back() const;

  std::vector<std::string> stops_;
  std::string waiting_;  // shorter than the longest stop string between calls
  bool found_ = false;
};

// Turns tokens into text while they are made, and never gives out half a UTF-8 character.

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
