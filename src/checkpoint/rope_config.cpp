#include "checkpoint/rope_config.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "config/limits.h"

namespace inkling {
namespace {

constexpr const char* rope_sections[] = {"rope_parameters", "rope_scaling"};

std::string rope_type(const JsonFields& rope) {
  return rope.optional_text("rope_type").value_or(rope.optional_text("type").value_or("default"));
}

double positive(const JsonFields& rope, const char* name, double lowest) {
  const double value = rope.real(name);
  if (value >= lowest && value <= most_rope_scaling) return value;
  rope.refuse_value(name, str("a number from ", format_shortest(lowest), " to ", format_shortest(most_rope_scaling)));
}

// How many positions the model learned from. transformers takes the field of config.json before that of `rope`, and
// without both the block's size.
std::int64_t original_positions(const JsonFields& config, const JsonFields& rope, std::int64_t block_size) {
  constexpr const char* name = "original_max_position_embeddings";
  if (!config.has(name)) return rope.has(name) ? rope.whole(name, 1, longest_block) : block_size;
  const std::int64_t original = config.whole(name, 1, longest_block);
  if (rope.has(name) && rope.whole(name, 1, longest_block) != original) {
    rope.refuse_value(name, str(original, ", as it is outside"));
  }
  return original;
}

RopeScaling read_scaling(const JsonFields& config, const char* section, std::int64_t block_size) {
  const JsonFields rope = config.section(section);
  for (const char* layers : {"full_attention", "sliding_attention"}) {
    if (rope.has(layers)) config.refuse(str(section, " differs by layer, which cannot be computed here"));
  }
  const std::string type = rope_type(rope);
  if (const auto other = rope.optional_text("type"); other && *other != type) {
    config.refuse(str(section, ".rope_type is ", quote(type), ", and ", section, ".type is ", quote(*other)));
  }
  if (type == "default") return {};
  if (type == "linear") return {.kind = ScalingKind::linear, .factor = positive(rope, "factor", 1)};
  if (type != "llama3") {
    config.refuse(str(section, rope.has("rope_type") ? ".rope_type" : ".type", " is ", quote(type),
                      ", and can be computed here as default, linear, llama3"));
  }
  const RopeScaling scaling = {.kind = ScalingKind::llama3,
                               .factor = positive(rope, "factor", 1),
                               .low = positive(rope, "low_freq_factor", least_rope_turns),
                               .high = positive(rope, "high_freq_factor", least_rope_turns),
                               .original = original_positions(config, rope, block_size)};
  if (scaling.high <= scaling.low) rope.refuse_value("high_freq_factor", "above low_freq_factor");
  return scaling;
}

// What one of the places that can hold the base says of it; std::nullopt: nothing.
std::optional<double> read_theta_of(const JsonFields& fields) {
  if (fields.optional_real("partial_rotary_factor").value_or(1.0) != 1.0) {
    fields.refuse_value("partial_rotary_factor", "1: heads that turn in part cannot be computed here");
  }
  return fields.optional_real("rope_theta");
}

// transformers 5 reads a rope_scaling that is not empty in place of rope_parameters, and takes what stands in either
// before rope_theta, so they must not disagree.
bool replaces_parameters(const JsonFields& config) {
  return config.has("rope_scaling") && !config.section("rope_scaling").names().empty();
}

double read_rope_theta(const JsonFields& config) {
  std::vector<std::pair<std::string, double>> thetas;
  if (const auto theta = read_theta_of(config)) thetas.emplace_back("rope_theta", *theta);
  for (const char* name : rope_sections) {
    if (!config.has(name)) continue;
    const auto theta = read_theta_of(config.section(name));
    if (theta) thetas.emplace_back(str(name, ".rope_theta"), *theta);
    const bool replaces = name == std::string_view("rope_scaling") && replaces_parameters(config);
    if (!theta && replaces && !config.has("rope_theta")) thetas.emplace_back("rope_scaling's usual theta", 10'000);
  }
  if (thetas.empty()) return 10'000;
  const auto& [first, theta] = thetas.front();
  for (const auto& [name, other] : thetas) {
    if (other == theta) continue;
    config.refuse(str(first, " is ", format_shortest(theta), ", and ", name, " is ", format_shortest(other)));
  }
  if (theta < 1 || theta > 1e12) config.refuse(str(first, " is ", format_shortest(theta), ", and must be 1 to 1e12"));
  return theta;
}

RopeScaling read_rope_scaling_of(const JsonFields& config, std::int64_t block_size) {
  std::optional<RopeScaling> scaling;
  for (const char* name : rope_sections) {
    if (!config.has(name)) continue;
    const RopeScaling said = read_scaling(config, name, block_size);
    const bool is_empty = name == std::string_view("rope_scaling") && !replaces_parameters(config);
    if (scaling && !is_empty && said != *scaling) {
      config.refuse(
          str("rope_parameters says ", rope_scaling_text(*scaling), ", and rope_scaling ", rope_scaling_text(said)));
    }
    if (!scaling) scaling = said;
  }
  return scaling.value_or(RopeScaling{});
}

// What transformers knows of a scaling of this type.
std::vector<std::string_view> rope_keys(const std::string& type) {
  std::vector<std::string_view> keys = {"rope_type", "type", "rope_theta", "partial_rotary_factor",
                                        "original_max_position_embeddings"};
  if (type != "default") keys.emplace_back("factor");
  if (type == "llama3") keys.insert(keys.end(), {"low_freq_factor", "high_freq_factor"});
  return keys;
}

}  // namespace

void read_rope(const JsonFields& config, GptShape& shape) {
  shape.rope_scaling = read_rope_scaling_of(config, shape.block_size);
  shape.rope_theta = read_rope_theta(config);
}

std::vector<std::string> unknown_rope_keys(const JsonFields& config) {
  std::vector<std::string> unknown;
  for (const char* section : rope_sections) {
    if (!config.has(section)) continue;
    const JsonFields rope = config.section(section);
    const std::vector<std::string_view> known = rope_keys(rope_type(rope));
    for (const std::string& name : rope.names()) {
      if (!rope.has(name) || std::ranges::find(known, name) != known.end()) continue;
      unknown.push_back(str(section, ".", name));
    }
  }
  return unknown;
}

nlohmann::ordered_json scaling_json(const RopeScaling& scaling) {
  switch (scaling.kind) {
    case ScalingKind::none:
      return {{"rope_type", "default"}};
    case ScalingKind::linear:
      return {{"rope_type", "linear"}, {"factor", scaling.factor}};
    case ScalingKind::llama3:
      return {{"rope_type", "llama3"},
              {"factor", scaling.factor},
              {"low_freq_factor", scaling.low},
              {"high_freq_factor", scaling.high},
              {"original_max_position_embeddings", scaling.original}};
  }
  throw Error::internal("an unknown scaling");
}

void write_rope(const GptShape& shape, nlohmann::ordered_json& config) {
  if (!has_rotation(shape.position)) return;
  config["rope_theta"] = shape.rope_theta;
  config["rope_parameters"] = scaling_json(shape.rope_scaling);
  config["rope_parameters"]["rope_theta"] = shape.rope_theta;
}

}  // namespace inkling
