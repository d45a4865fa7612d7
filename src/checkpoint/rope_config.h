// What config.json says of rotary positions: their base, and how their angles are scaled.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "config/model_shape.h"
#include "formats/json.h"

namespace inkling {

// Sets rope_theta and rope_scaling, from rope_theta, rope_parameters (transformers 5) and rope_scaling (4); without any
// of them they are 10,000 and none. shape.block_size must be set. Throws Error input naming the field for a rope_type
// that cannot be computed, for what is missing or out of range, and for fields that disagree.
void read_rope(const JsonFields& config, GptShape& shape);

// Returns the fields of rope_parameters and rope_scaling that say something else, as "rope_scaling.factor" where no
// rope_type has a factor.
std::vector<std::string> unknown_rope_keys(const JsonFields& config);

// Returns {"rope_type": …} and what belongs to this type.
nlohmann::ordered_json scaling_json(const RopeScaling& scaling);

// Writes rope_theta, which transformers 4 reads, and rope_parameters, which 5 reads; nothing for a model without rope.
void write_rope(const GptShape& shape, nlohmann::ordered_json& config);

}  // namespace inkling
