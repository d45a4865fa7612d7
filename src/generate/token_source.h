// The next token of several texts that grow at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/token_file.h"
#include "generate/sampler.h"
#include "model/device.h"
#include "model/gpt.h"

namespace inkling {

struct GrowingText {
  std::span<const Token> tokens;  // so far, prompt included, not empty
  std::uint64_t random = 0;       // key of its random numbers; that for the token at place i is number i
};

class TokenSource {
 public:
  TokenSource() = default;
  virtual ~TokenSource() = default;
  TokenSource(const TokenSource&) = delete;
  TokenSource& operator=(const TokenSource&) = delete;

  // Draws a token for each text. Between two calls a text either grows by the token it was given or is removed; new
  // ones come at the end. Error input if the model's logits are no numbers.
  virtual std::vector<Token> next(std::span<const GrowingText> texts) = 0;

  // The last text takes the place of this one.
  virtual void remove(std::size_t row) = 0;
};

struct TokenSourceSettings {
  SamplingSettings sampling = {};
  std::uint64_t vocab_size = 0;  // a model may know more tokens than its vocabulary has: those are never drawn
  std::int64_t max_rows = 1;     // texts at the same time
  bool cache = true;
};

// `model` must outlive it.
std::unique_ptr<TokenSource> make_token_source(const Gpt& model, const Runtime& runtime,
                                               const TokenSourceSettings& settings);

}  // namespace inkling
