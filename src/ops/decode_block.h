// One new token for each of a few rows through a whole block of the model, on the CPU. What takes the time is reading
// the weights; they pass through the caches and push out everything else, so that between two matrices every array and
// every instruction has to come from memory again. Hence one parallel region and little code.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/recompute.h"

namespace inkling {

struct DecodedBlock {
  const LinearWeights &c_attn, &c_proj;
  const NormWeights& norm_behind_attention;
  const MlpWeights& mlp;
  const NormWeights& norm_behind_mlp;
  GeluForm form;
  std::int64_t n_head;
  const CachedLayer& cache;
  const at::Tensor& lengths;  // int64 [B], as cached_attention() takes them
};

// Whether decode_block() is there for x.
bool decodes_whole_blocks(const at::Tensor& x, const Context& context);

// in: the residual stream and its norm, both [B, 1, C] -> the same behind the block. What linear, cached_attention,
// add_layer_norm and mlp compute one after another.
TwoTensors decode_block(const TwoTensors& in, const DecodedBlock& block);

}  // namespace inkling
