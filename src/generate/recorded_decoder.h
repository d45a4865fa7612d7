// The decoder where work is queued. A step gives every text one more token, the draw included. It is recorded once for
// each number of texts and queued again for each token. The next step reads the drawn token on the device, which is one
// step ahead of the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "backend/recorded_work.h"
#include "generate/decoder.h"
#include "runtime/transfer.h"

namespace inkling {

class RecordedDecoder final : public Decoder {
 public:
  // `model` must outlive it. cache_options: device and dtype of keys and values. All work goes to the current stream.
  RecordedDecoder(const Model& model, const at::TensorOptions& cache_options, const DecoderSettings& settings);

  // Draws as sample_token() does, in float32.
  std::vector<Token> next(std::span<const GrowingText> texts) override;
  void remove(std::size_t row) override;

 private:
  std::vector<std::int64_t> penalized_ring(std::span<const Token> text) const;
  void begin(std::span<const GrowingText> texts);
  void step(std::int64_t rows);
  Download::Copy& queue();

  const Model& model_;
  DecoderSettings settings_;
  CachedTexts cached_;
  DrawState all_;                               // of max_rows texts; `lengths` are the cache's
  std::map<std::int64_t, RecordedWork> steps_;  // by number of rows
  Download drawn_;
  Download::Copy* ahead_ = nullptr;  // the draw of the step that is queued already, which next() will return; or null
};

}  // namespace inkling
