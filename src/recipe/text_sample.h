// What a recipe looks at of a text before anything is made of it: how much there is, and some of it from all over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "formats/token_file.h"
#include "text/tokenizer.h"

namespace inkling::recipe {

// Pieces of a text, in its order.
struct TextSample {
  std::uint64_t bytes = 0;  // of all of the text; of compressed files as they lie on the disk
  double val_fraction = 0.1;
  std::string training;  // from all over what is trained on, at most 4 MiB
  std::string held_out;  // the tail, which begins at (1 - val_fraction) of the text
  bool is_utf8 = true;   // as far as it was looked at
};

// Looks at what config.source names. The tail is a tenth of the text, and at most 512 KiB. Texts of JSON and compressed
// ones, which have to be read from their front, give their first 4 MiB, the last tenth of these as the tail's.
// Throws Error input for a source that is missing, no text, or holds less than least_bytes; Stopped.
inline constexpr std::uint64_t least_bytes = 2000;
TextSample sample_text(const DataConfig& config);

// The sample as a vocabulary spells it.
struct SpelledSample {
  std::uint64_t vocab_size = 0;
  std::vector<Token> training, held_out;
  double bytes_per_token = 1.0;  // of the sample for training
};

// Learns a tokenizer from the sample for training and spells both parts. Returns none where there is too little to
// learn so many tokens from. Throws Error input for a sample that is not UTF-8, unless the tokenizer is of bytes.
std::optional<SpelledSample> spell(const TextSample& sample, const TokenizerConfig& config);

// The same by a tokenizer that is there already. Throws its errors.
SpelledSample spell(const TextSample& sample, const Tokenizer& tokenizer);

}  // namespace inkling::recipe
