// Making a tokenizer from the text it is for.
//
// byte needs no text:
//     auto tokenizer = make_byte_tokenizer(with_separator);
// char and sentencepiece need it:
//     CharVocabularyBuilder builder;          // or: SentencepieceTrainer builder(config);
//     builder.add(lines);                     // for every part of the training text, in order (text/text_cuts.h)
//     auto tokenizer = builder.finish(with_separator);
// build_tokenizer() does that for every kind, and is the way to a bpe. All take bounded memory however long the text
// is, and the same lines give the same tokenizer, bit for bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "text/text_cuts.h"
#include "text/tokenizer.h"

namespace inkling {

// Cuts `part` off the front of a text, as Tokenizer::part_length() does.
using PartLength = std::function<std::size_t(std::string_view text, bool more_may_follow)>;

// Calls take(part, is_trained_on) for every part of the text, in order; parts of the validation split are not trained
// on. `task` is for the progress bar: "sampling lines".
using TakePart = std::function<void(std::string_view part, bool is_trained_on)>;
using ReadParts = std::function<void(const char* task, const PartLength& part_length, const TakePart& take)>;

// Makes a tokenizer of any kind, or opens the one that config.from names. Throws what the builders below throw, and
// Error input if config.from is of another kind, or has no separator and needs one.
std::unique_ptr<Tokenizer> build_tokenizer(const TokenizerConfig& config, const ReadParts& read, bool with_separator);

// Whether the vocabulary's size is a setting, because its pieces are learned from the text.
bool tokenizer_learns(const TokenizerConfig& config);

// Whether the person says which tokenizer the run takes.
bool names_tokenizer(const Config& config);

// Throws Error input, naming model.init_from and the nearest name, if there is no such path.
void require_model(const std::filesystem::path& init_from);

// Makes the tokenizer of a model that the run starts from data.tokenizer.from, unless the person names another. Throws
// Error input if the folder holds none and nobody names one, and if data.tokenizer.kind says otherwise. `held`: what
// the folder holds; null: none.
void inherit_tokenizer(Config& config, const std::filesystem::path& folder, const Tokenizer* held);

// Lets data.tokenizer.from be `checkpoint`, which has the same tokenizer, where what it names is gone by now.
void replace_missing_tokenizer(TokenizerConfig& config, const std::filesystem::path& checkpoint);

// The file or folder that data.tokenizer.from means: a path, or GPT-2's own for the word gpt2. Throws Error input if
// there is no such path, and Error environment if GPT-2's is not where scripts/environment puts it.
std::filesystem::path tokenizer_source(const std::string& from);

// What identifies the tokenizer that data.tokenizer.from means: equal texts, equal tokens.
std::string identify_tokenizer_source(const TokenizerConfig& config);

// The 256 bytes as tokens 0 to 255; the separator, if wanted, is token 256.
std::unique_ptr<Tokenizer> make_byte_tokenizer(bool with_separator);

// From a sentencepiece model in memory. Throws Error input if it is not a model, or is one that cannot spell every
// text.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(std::string serialized_model);

// Every code point of the text is a token, in ascending order; the separator, if wanted, is the last one.
class CharVocabularyBuilder {
 public:
  CharVocabularyBuilder();
  void add(std::string_view lines);  // Error input if it is not UTF-8, with the byte offset in `lines`

  // Throws Error input if there was no text at all. More text may be added afterwards, and finish() called again.
  std::unique_ptr<Tokenizer> finish(bool with_separator) const;

 private:
  std::vector<bool> seen_;  // by code point
};

// Trains a sentencepiece model (Kudo and Richardson 2018) that leaves the text as it is: it normalises nothing, keeps
// spaces, tabs and newlines, and spells in bytes what has no piece, so that decoding gives every text back exactly.
class SentencepieceTrainer {
 public:
  // config.vocab_size counts all ids: pieces, the 256 bytes, "unknown" (never used) and the separator. The model is
  // trained on at most `sample_bytes` of lines, and the library needs up to 55 bytes of memory for each.
  explicit SentencepieceTrainer(const TokenizerConfig& config, std::uint64_t sample_bytes = 16 << 20);

  void add(std::string_view lines);            // Error input if it is not UTF-8, with the byte offset in `lines`
  void add_unlearned(std::string_view lines);  // text to be tokenized later, only looked at for the warning of finish()

  // Trains without printing anything, which takes seconds to minutes; it can be called once. Warns, with a count, if
  // the text held U+2581, which sentencepiece uses for the space. Throws Error input if the text is too small or too
  // rich for vocab_size, naming the possible sizes.
  std::unique_ptr<Tokenizer> finish(bool with_separator);

 private:
  TokenizerConfig config_;
  LineSample lines_;
  std::uint64_t space_signs_ = 0;
};

}  // namespace inkling
