// The next token of several texts that grow at the same time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "formats/token_file.h"
#include "generate/cached_texts.h"
#include "generate/sampler.h"
#include "model/model.h"

namespace inkling {

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

// Makes a decoder that takes one step at a time and draws on the host, or, where the backend queues and there is a
// cache, one whose steps are recorded, with draws on the device, one step ahead of the host. `model` must outlive it.
std::unique_ptr<Decoder> make_decoder(const Model& model, const Runtime& runtime, const DecoderSettings& settings);

// Returns the bytes that the keys and values of one text of at most `longest` tokens take.
std::int64_t cache_row_bytes(const Model& model, const Runtime& runtime, std::int64_t longest);

// Returns how many texts of at most `longest` tokens may share a step when their caches may take `cache_bytes`. Rows
// share nothing, so texts do not depend on it; where a row's bits might depend on the other rows, it is 1.
std::int64_t rows_together(const Model& model, const Runtime& runtime, std::int64_t longest, std::int64_t cache_bytes);

// Returns the bytes that caches may take: a fixed number on the CPU, half of what is free on a GPU.
std::int64_t cache_bytes(at::Device device);

// The logits after the last token of each text, for draws on the host.
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

  const Model& model_;
  at::Device device_;
  std::optional<CachedTexts> cached_;  // none without a cache
};

}  // namespace inkling
