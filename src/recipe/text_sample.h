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

// Pieces of a text, in its order, of each of its sources as much as is its share.
struct TextSample {
  std::uint64_t bytes = 0;    // of all of the text
  bool is_estimated = false;  // whether they are: by how much text the front of a source gave
  double val_fraction = 0.1;
  std::string training;       // from all over what is trained on, at most 4 MiB
  std::string held_out;       // the tails of the sources, which begin at (1 - val_fraction) of each
  std::string not_utf8 = {};  // "notes.txt:12": the first place that was looked at and is not UTF-8
};

// Looks at what config.source names. The tails are a tenth of the text, and at most 512 KiB. Sources of JSON and
// compressed ones, which have to be read from their front, give the first 4 MiB, the last tenth of these as the tail's;
// beyond 64 MiB of text how much they hold is estimated. Whether a text is UTF-8 is looked at in its first 256 MiB (64
// of those), and in the sample. Where there are several sources, each has its share of these numbers. Throws Error
// input for sources that are missing, no text (in UTF-16, too, unless config.tokenizer is of bytes), or hold less than
// least_bytes; Stopped.
inline constexpr std::uint64_t least_bytes = 2000;
TextSample sample_text(const DataConfig& config);

std::string names_of(const std::vector<std::string>& sources);  // "book.txt and 2 more"

// The sample as a vocabulary spells it.
struct SpelledSample {
  std::uint64_t vocab_size = 0;
  std::vector<Token> training, held_out;
  double bytes_per_token = 1.0;  // of the sample for training
};

// Learns a tokenizer from the sample for training and spells both parts. Returns none where there is too little to
// learn so many tokens from. Throws Error input where single characters are asked for and the sample is not UTF-8.
std::optional<SpelledSample> spell(const TextSample& sample, const TokenizerConfig& config);

// The same by a tokenizer that is there already. Throws its errors.
SpelledSample spell(const TextSample& sample, const Tokenizer& tokenizer);

}  // namespace inkling::recipe
