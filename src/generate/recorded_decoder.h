// Generating where work is queued: one more token for every text, the draw included, is recorded once and queued again
// for each token. A token that was drawn goes into the next step on the device, which is one step ahead of the host
// that reads it.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "backend/repeated.h"
#include "generate/decoder.h"
#include "runtime/transfer.h"

namespace inkling {

class RecordedDecoder final : public Decoder {
 public:
  // `model` must outlive it. cache_options: device and dtype of keys and values. Everything is queued on the stream
  // that is current.
  RecordedDecoder(const Model& model, const at::TensorOptions& cache_options, const DecoderSettings& settings);

  // Draws as sample_token() does, in float32.
  std::vector<Token> next(std::span<const GrowingText> texts) override;
  void remove(std::size_t row) override;

 private:
  void begin(std::span<const GrowingText> texts);
  void step(std::int64_t rows);
  Download::Copy& queue();

  const Model& model_;
  DecoderSettings settings_;
  CachedTexts cached_;
  DrawState all_;                           // of max_rows texts; `lengths` are the cache's
  std::map<std::int64_t, Repeated> steps_;  // by number of rows
  Download drawn_;
  Download::Copy* ahead_ = nullptr;  // the draw for the texts as they are once each has its new token, if it is queued
};

}  // namespace inkling
