// The next token of several texts that grow at the same time.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "formats/token_file.h"
#include "generate/sampler.h"
#include "model/model.h"
#include "runtime/parallel.h"

namespace inkling {

// The context rule. Where a text can go on without end (GptShape::is_endless()), its context is all of it. Everywhere
// else a text of `length` tokens (prompt included) is continued from its tokens [start, length), encoded
// at positions 0, 1, …: all of them while they fit into block_size T; when they no longer do, the last half of the
// context (T / 2 tokens, the newest included) is encoded anew from position 0 and grows again up to T:
//
//   start = 0                                            for length <= T
//   start = ceil((length - T) / stride) * stride         for length > T, where stride = T + 1 - max(1, T / 2)
//
// It depends on the length alone, so a text is continued alike with and without a cache, and a long prompt exactly as
// if it had been generated. (Positions count from the context's start, learned or turned, so a cached key cannot be
// used at another.)
std::uint64_t context_start(std::uint64_t length, std::uint64_t block_size);

// Returns the tokens of the text that are its context.
std::span<const Token> context_of(std::span<const Token> text, const GptShape& shape);

// Returns those that repetition_penalty counts: the context, or the last block of it.
std::span<const Token> penalized_tokens(std::span<const Token> text, const GptShape& shape);

// Returns how many positions the contexts of texts of at most `longest` tokens have at most.
std::int64_t longest_context(const GptShape& shape, std::int64_t longest);

// The keys and values of several texts that grow at the same time, and which part of each text they belong to.
class CachedTexts {
 public:
  // `model` must outlive this. longest: tokens that a text may reach. `options`: device and dtype of keys and values.
  CachedTexts(const Model& model, std::int64_t max_rows, std::int64_t longest, const at::TensorOptions& options);

  std::size_t count() const { return held_.size(); }
  // Throws Error internal for a number of texts that these rows cannot have become, because only remove() removes rows.
  void check_texts(std::size_t texts) const;
  // Returns how many positions of the row are cached.
  std::uint64_t length(std::size_t row) const { return held_[row].length; }

  // Returns the rows that do not hold their text's context without its last token, which is decoded together with those
  // of the other rows. New rows come after the last.
  std::vector<std::size_t> stale_rows(std::span<const std::span<const Token>> texts);
  // Makes such a row hold it. Several may be filled at the same time.
  void prefill(std::size_t row, std::span<const Token> text);

  // Returns views of all rows, for one step. grow() must follow the step: each row has one more position then.
  KeyValueCache all() const { return cache_.narrow(0, static_cast<std::int64_t>(held_.size())); }
  void grow();

  // Removes a row; the last row takes its place.
  void remove(std::size_t row);

 private:
  struct Held {
    std::uint64_t start = UINT64_MAX;  // the context's first token in its text; there is none yet
    std::uint64_t length = 0;          // cached tokens from there on
    bool operator==(const Held&) const = default;
  };
  Held wanted(std::span<const Token> text) const;  // of a text that goes on

  KeyValueCache only(std::size_t row) const { return cache_.narrow(static_cast<std::int64_t>(row), 1); }

  const Model& model_;
  KeyValueCache cache_;
  std::vector<Held> held_;  // of the rows there are
};

// Return the numbers as int64 on the device.
at::Tensor to_device(std::span<const std::int64_t> numbers, at::Device device);
at::Tensor to_device(std::span<const Token> tokens, at::Device device);

struct GrowingText {
  std::span<const Token> tokens;  // so far, prompt included, not empty
  std::uint64_t random = 0;       // key of its random numbers, of which number i draws the token at place i
};

struct DecoderSettings {
  SamplingSettings sampling = {};
  std::uint64_t vocab_size = 0;      // a model may know more tokens than its vocabulary has: those are never drawn
  std::int64_t max_rows = 1;         // texts at the same time
  std::int64_t longest = INT64_MAX;  // tokens that a text may reach, prompt included: caches have room for no more
  bool cache = true;                 // false: encode the whole context for every token, slowly, to check the cache
};

class Decoder {
 public:
  Decoder() = default;
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Draws a token for each text. Between two calls a text either grows by the token it was given or is removed; new
  // ones come at the end. Throws Error input if a logit is NaN or +infinity.
  virtual std::vector<Token> next(std::span<const GrowingText> texts) = 0;

  // Removes a text; the last text takes its place.
  virtual void remove(std::size_t row) = 0;
};

// Makes a decoder that takes one step at a time and draws on the host, or, where the backend records and there is a
// cache, one whose steps are recorded, with draws on the device, one step ahead of the host. `model` must outlive it.
std::unique_ptr<Decoder> make_decoder(const Model& model, const Runtime& runtime, const DecoderSettings& settings);

// Returns the bytes that the keys and values of one text of at most `longest` tokens take.
std::int64_t cache_row_bytes(const Model& model, const Runtime& runtime, std::int64_t longest);

// Returns how many texts of at most `longest` tokens may share a step when their caches may take `cache_bytes`. Rows
// share nothing, so texts do not depend on it; where a row's bits might depend on the other rows, it is 1.
std::int64_t rows_together(const Model& model, const Runtime& runtime, std::int64_t longest, std::int64_t cache_bytes);

// Returns the bytes that caches may take: a fixed number on the CPU, half of what is free on a GPU.
std::int64_t cache_bytes(at::Device device);

// The logits after the last token of each text, for draws on the host. Where all of a small model's weights stay in the
// caches, each thread of a CPU takes whole texts, so that the bits do not depend on how many there are; where weights
// are read from memory, all threads read them together for all texts.
class EagerLogits {
 public:
  // `model` must outlive this. longest: that of DecoderSettings.
  EagerLogits(const Model& model, const Runtime& runtime, std::int64_t max_rows, bool use_cache,
              std::int64_t longest = INT64_MAX);

  // texts[r] is the whole text of row r so far, not empty. There are at most max_rows, which change from call to call
  // as those of Decoder::next() do. Returns float32 [rows, V] on the CPU. With a cache, each text's prompt is encoded
  // alone, and then all texts take a step together.
  at::Tensor operator()(std::span<const std::span<const Token>> texts);
  void remove(std::size_t row);

 private:
  at::Tensor uncached(std::span<const Token> text) const;
  at::Tensor decode(std::span<const Token> last_tokens);

  const Model& model_;
  at::Device device_;
  std::optional<Workers> workers_;     // none where threads do not take texts of their own
  std::optional<CachedTexts> cached_;  // none without a cache
};

}  // namespace inkling
