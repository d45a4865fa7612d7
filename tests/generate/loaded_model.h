// A model in memory with a vocabulary: random weights, large enough that its texts are not monotonous.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/model_weights.h"
#include "tests/model/small_model.h"
#include "text/build_tokenizer.h"

namespace inkling {

inline constexpr std::string_view alphabet = "\n abcdefghijklmnopqrstuvwxyzéß€𝄞";

inline std::unique_ptr<Tokenizer> make_char_tokenizer(bool with_separator, std::string_view text = alphabet) {
  CharVocabularyBuilder builder;
  builder.add("\n");
  builder.add(text.substr(text.front() == '\n' ? 1 : 0));
  return builder.finish(with_separator);
}

// Runtime settings of a test: one thread keeps the machine free for others.
inline Runtime test_runtime(Kernels kernels = Kernels::fused) { return {.kernels = kernels, .threads = 1}; }

inline LoadedModel make_loaded_model(std::unique_ptr<Tokenizer> tokenizer, std::int64_t block_size,
                                     const Runtime& runtime, GptShape shape = test::small_shape) {
  shape.block_size = block_size;
  shape.vocab_size = static_cast<std::int64_t>(tokenizer->vocab_size());
  test::SmallModel made = test::make_lively_model(shape, {.runtime = runtime, .use = Use::inference});
  return {.folder = "memory",
          .runtime = runtime,
          .arena = std::move(made.arena),
          .model = std::move(made.model),
          .tokenizer = std::move(tokenizer)};
}

inline LoadedModel make_loaded_model(std::unique_ptr<Tokenizer> tokenizer, std::int64_t block_size,
                                     Kernels kernels = Kernels::fused) {
  return make_loaded_model(std::move(tokenizer), block_size, test_runtime(kernels));
}

}  // namespace inkling
