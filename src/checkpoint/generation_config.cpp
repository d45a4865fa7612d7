#include "checkpoint/generation_config.h"

#include <nlohmann/json.hpp>

#include "base/paths.h"
#include "base/strings.h"
#include "formats/json_fields.h"
#include "kernels/kernel_settings.h"

namespace inkling {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* file_name = "generation_config.json";
constexpr const char* remedy = "take the field out, or fetch or save the model again";

// What transformers would do and inkling does not, with the value that leaves it undone.
struct Undone {
  const char* field;
  const char* value;
};
constexpr Undone undone[] = {
    {"num_beams", "1"},          {"num_beam_groups", "1"},
    {"penalty_alpha", ""},       {"no_repeat_ngram_size", "0"},
    {"min_length", "0"},         {"min_new_tokens", ""},
    {"typical_p", "1.0"},        {"epsilon_cutoff", "0.0"},
    {"eta_cutoff", "0.0"},       {"bad_words_ids", ""},
    {"force_words_ids", ""},     {"forced_bos_token_id", ""},
    {"forced_eos_token_id", ""}, {"suppress_tokens", ""},
    {"sequence_bias", ""},       {"begin_suppress_tokens", ""},
    {"guidance_scale", "1.0"},   {"encoder_repetition_penalty", "1.0"},
    {"stop_strings", ""},        {"token_healing", "false"},
    {"watermarking_config", ""}, {"encoder_no_repeat_ngram_size", "0"},
    {"constraints", ""},         {"exponential_decay_length_penalty", ""},
};

bool is_value(const JsonFields& json, const char* field, const std::string& value) {
  const std::string found = json.json(field);
  return found == value || found + ".0" == value;
}

// A token, or a list of them.
std::vector<Token> read_tokens(const JsonFields& json, const char* field, std::int64_t vocab_size) {
  std::vector<Token> tokens;
  if (!json.has(field)) return tokens;
  const std::string text = json.json(field);
  const nlohmann::json list = text.starts_with("[") ? json.list(field) : nlohmann::json::parse("[" + text + "]");
  for (const nlohmann::json& token : list) {
    if (!token.is_number_unsigned()) json.refuse_value(field, "a token, or a list of tokens");
    // Small models are often made with the tokens of large ones, which they never draw.
    if (token.get<std::uint64_t>() >= static_cast<std::uint64_t>(vocab_size)) continue;
    tokens.push_back(token.get<Token>());
  }
  return tokens;
}

}  // namespace

std::string print_generation_config(const TextEnds& ends) {
  Json json = {{"do_sample", true}, {"temperature", SamplingSettings{}.temperature}, {"top_k", 0}};
  if (ends.last) json["eos_token_id"] = *ends.last;
  if (ends.first) json["bos_token_id"] = *ends.first;
  return json.dump(2) + "\n";
}

GenerationConfig read_generation_config(const std::filesystem::path& folder, std::int64_t vocab_size) {
  GenerationConfig config;
  const JsonFields model(folder / "config.json", "fetch or save the model again, or choose another");
  if (!is_there(folder / file_name)) {
    config.ends = read_tokens(model, "eos_token_id", vocab_size);
    return config;
  }
  const JsonFields json(folder / file_name, remedy);
  for (const auto& [field, value] : undone) {
    if (json.has(field) && !is_value(json, field, value)) {
      config.refused = str((folder / file_name).string(), ": ", field, " is ", json.json(field), ", and must be ",
                           *value == '\0' ? "null" : value, ", as inkling draws one token after the other; ", remedy);
    }
  }
  config.ends = read_tokens(json.has("eos_token_id") ? json : model, "eos_token_id", vocab_size);
  if (json.has("top_k")) config.top_k = json.count("top_k");
  config.temperature = json.optional_real("temperature");
  config.top_p = json.optional_real("top_p");
  config.min_p = json.optional_real("min_p");
  config.repetition_penalty = json.optional_real("repetition_penalty");
  if (json.optional_flag("do_sample") == false) config.temperature = 0.0;
  return config;
}

}  // namespace inkling
