// Learning the merges of byte-level BPE from a text (Sennrich et al. 2016).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "bpe/vocabulary.h"
#include "bpe/word_counts.h"

namespace inkling {

class BpeTrainer {
 public:
  // At most `most_bytes` of different words are kept, those that come most often; learning takes up to 16 bytes of
  // memory for each.
  explicit BpeTrainer(Pattern pattern, std::size_t most_bytes = std::size_t{32} << 20);

  // Takes a part of the training text: well-formed UTF-8 that begins and ends where the pattern has a boundary.
  void add(std::string_view part);

  // Merges, again and again, the pair of neighbours that comes most often, of equal ones that of the smaller tokens,
  // until there are `most_tokens` tokens or no pair comes twice. The first 256 tokens are the bytes in the order of
  // GPT-2, and the i-th merge makes token 256 + i. Calls `progress` with the number of tokens. The same words in the
  // same numbers give the same tokens; those of Hugging Face's trainer with min_frequency=2.
  BpeVocabulary finish(std::size_t most_tokens, const std::function<void(std::size_t)>& progress = {}) const;

 private:
  Pattern pattern_;
  WordCounts words_;
};

}  // namespace inkling
