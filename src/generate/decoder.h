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
  std::uint64_t random = 0;       // key of its random numbers; that for the token at place i is number i
};

struct DecoderSettings {
  SamplingSettings sampling = {};
  std::uint64_t vocab_size = 0;  // a model may know more tokens than its vocabulary has: those are never drawn
  std::int64_t max_rows = 1;     // texts at the same time
  bool cache = true;             // false: encode the whole context for every token; slow, the judge of the cache
};

class Decoder {
 public:
  Decoder() = default;
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Draws a token for each text. Between two calls a text either grows by the token it was given or is removed; new
  // ones come at the end. Error input if the model's logits are no numbers.
  virtual std::vector<Token> next(std::span<const GrowingText> texts) = 0;

  // The last text takes the place of this one.
  virtual void remove(std::size_t row) = 0;
};

// A step at a time, with draws on the host; or, where the backend queues and there is a cache, recorded, with draws on
// the device and one step ahead of the host. `model` must outlive it.
std::unique_ptr<Decoder> make_decoder(const Model& model, const Runtime& runtime, const DecoderSettings& settings);

// How many texts may share a step whose caches may take `cache_bytes`. Rows share nothing, so texts do not depend on
// it; where a row's bits might depend on those beside it, it is 1.
std::int64_t rows_together(const Model& model, const Runtime& runtime, std::int64_t cache_bytes);

// On the CPU a fixed number; on a GPU half of what is free there.
std::int64_t cache_bytes(at::Device device);

// The logits behind the last token of each text, for draws on the host.
class EagerLogits {
 public:
  // `model` must outlive this.
  EagerLogits(const Model& model, const Runtime& runtime, std::int64_t max_rows, bool use_cache);

  // texts[r]: the whole text of row r so far, not empty; at most max_rows, as Decoder::next() has them. -> float32 on
  // the CPU, [rows, V]. With a cache, a text's prompt is encoded alone and then all texts take a step together.
  at::Tensor operator()(std::span<const std::span<const Token>> texts);

  // As Decoder::remove().
  void remove(std::size_t row);

 private:
  at::Tensor uncached(std::span<const Token> text) const;

  const Model& model_;
  at::Device device_;
  std::optional<CachedTexts> cached_;  // none without a cache
};

}  // namespace inkling
