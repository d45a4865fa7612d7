#include "generate/token_source.h"

#include <ATen/record_function.h>

#include "base/random.h"
#include "generate/context_rule.h"
#include "generate/decoder.h"
#include "generate/graphed_decoder.h"

namespace inkling {
namespace {

// Logits from the model, wherever it is, and the draw on the CPU.
class HostDraws : public TokenSource {
 public:
  HostDraws(const Gpt& model, const Runtime& runtime, const TokenSourceSettings& settings)
      : block_size_(model.shape().block_size),
        settings_(settings),
        decoder_(model, runtime, settings.max_rows, settings.cache) {}

  std::vector<Token> next(std::span<const GrowingText> texts) override {
    std::vector<std::span<const Token>> tokens;
    for (const GrowingText& text : texts) tokens.push_back(text.tokens);
    const at::Tensor logits = decoder_.next_logits(tokens);
    RECORD_FUNCTION("sample_token", std::vector<c10::IValue>());
    std::vector<Token> drawn;
    const float* row = logits.data_ptr<float>();
    for (const GrowingText& text : texts) {
      drawn.push_back(sample_token({row, static_cast<std::size_t>(settings_.vocab_size)},
                                   context_of(text.tokens, block_size_), settings_.sampling,
                                   random_unit(text.random, text.tokens.size())));
      row += logits.size(1);
    }
    return drawn;
  }

  void remove(std::size_t row) override { decoder_.remove(row); }

 private:
  std::int64_t block_size_;
  TokenSourceSettings settings_;
  Decoder decoder_;
};

}  // namespace

std::unique_ptr<TokenSource> make_token_source(const Gpt& model, const Runtime& runtime,
                                               const TokenSourceSettings& settings) {
  if (settings.cache && GraphedDecoder::possible(runtime)) {
    return std::make_unique<GraphedDecoder>(model, runtime, settings);
  }
  return std::make_unique<HostDraws>(model, runtime, settings);
}

}  // namespace inkling
