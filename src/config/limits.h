// The largest and smallest of what a model may have, in a config and in a model that was made elsewhere.
#pragma once

#include <cstdint>

namespace inkling {

// The largest of what a model may have: layers, heads, channels of a token or a head and inside the MLP, positions,
// tokens.
inline constexpr std::int64_t most_layers = 1000, most_heads = 1000, widest = 65'536, widest_inner = 1'048'576,
                              longest_block = 1'048'576, largest_vocabulary = 4'294'967'295;

// The most positions that a convolution of the model sees.
inline constexpr std::int64_t longest_conv = 32;

// What a scaling of rope's angles may say: its factor, and how often pairs turn.
inline constexpr double most_rope_scaling = 1e6, least_rope_turns = 1e-6;

// What float32 still computes with.
inline constexpr double least_softcap = 1e-3, most_softcap = 1e6, least_norm_epsilon = 1e-30;

}  // namespace inkling
