// Generating on a GPU with the fused kernels: one more token for every text, the draw included, is recorded once in a
// CUDA graph and queued again for each token. A token that was drawn goes into the next step on the GPU, which is one
// step ahead of the host that reads it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "generate/cached_rows.h"
#include "generate/token_source.h"
#include "ops/cuda_library.h"

namespace inkling {

class GraphedDecoder : public TokenSource {
 public:
  static bool possible(const Runtime& runtime);

  // `model` must outlive it. Everything is queued on the stream that is current.
  GraphedDecoder(const Gpt& model, const Runtime& runtime, const TokenSourceSettings& settings);

  // Draws as sample_token() does, in float32.
  std::vector<Token> next(std::span<const GrowingText> texts) override;
  void remove(std::size_t row) override;

 private:
  // Where the tokens of a step wait for the host.
  struct Draw {
    at::Tensor tokens;  // int64 [max_rows], pinned
    std::optional<c10::Event> arrived;
  };

  void begin(std::span<const GrowingText> texts);
  void step(std::int64_t rows);
  Draw& queue();

  const Gpt& model_;
  at::Device device_;
  const CudaLibrary& cuda_;
  TokenSourceSettings settings_;
  CachedRows rows_;
  // int64, a row for each text: its last token, its context [max_rows, block_size], the key of its random numbers,
  // which of them is next, and the token drawn last, -1 if there was none to be drawn.
  at::Tensor tokens_, contexts_, random_, places_, drawn_;
  struct Graph {
    std::int64_t uses = 0;
    std::function<void()> queue;  // empty until it is recorded
  };
  std::vector<Graph> graphs_;  // [n]: of a step of n rows
  std::array<Draw, 2> draws_;
  std::size_t next_draw_ = 0;
  Draw* ahead_ = nullptr;  // the draw for the texts as they are once each has its new token, if it is queued
};

}  // namespace inkling
