#include "checkpoint/generation_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/strings.h"
#include "formats/json.h"
#include "kernels/kernel_settings.h"

namespace inkling {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* file_name = "generation_config.json";
constexpr const char* generation_remedy = "take the field out of the file, or the file out of the folder";

// What transformers would do and inkling does not, with the values that leave it undone.
struct Undone {
  const char* field;
  const char* values;             // a list, as JSON; null is one of them for every field
  bool only_if_sampling = false;  // it changes nothing where the likeliest token is taken
};
constexpr Undone undone[] = {
    {"num_beams", "[1]"},
    {"num_beam_groups", "[1]"},
    {"penalty_alpha", "[0]"},
    {"no_repeat_ngram_size", "[0]"},
    {"encoder_no_repeat_ngram_size", "[0]"},
    {"min_length", "[0]"},
    {"min_new_tokens", "[0]"},
    {"bad_words_ids", "[[]]"},
    {"force_words_ids", "[[]]"},
    {"constraints", "[[]]"},
    {"forced_bos_token_id", "[]"},
    {"forced_eos_token_id", "[]"},
    {"suppress_tokens", "[[]]"},
    {"begin_suppress_tokens", "[[]]"},
    {"sequence_bias", "[[], {}]"},
    {"guidance_scale", "[1]"},
    {"encoder_repetition_penalty", "[1]"},
    {"exponential_decay_length_penalty", "[]"},
    {"stop_strings", "[[]]"},
    {"token_healing", "[false]"},
    {"watermarking_config", "[]"},
    {"typical_p", "[1]", true},
    {"epsilon_cutoff", "[0]", true},
    {"eta_cutoff", "[0]", true},
    {"top_h", "[]", true},
};

bool is_undone(const Json& value, const Undone& one) {
  const Json values = Json::parse(one.values);
  return std::any_of(values.begin(), values.end(), [&](const Json& each) { return each == value; });
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

// The value of a field that is a number and fits; `expected` says which numbers do.
template <typename Fits>
UsualSetting<double> read_number(const JsonFields& json, const char* field, const char* expected, const Fits& fits) {
  UsualSetting<double> setting;
  try {
    setting.value = json.optional_real(field);
    if (setting.value && !(std::isfinite(*setting.value) && fits(*setting.value))) json.refuse_value(field, expected);
  } catch (const Error& error) {
    setting.problem = error.message();
  }
  return setting;
}

// Other programs write -1 for no bound, and Python's 50.0 is 50.
UsualSetting<std::uint64_t> read_top_k(const JsonFields& json) {
  constexpr double most = 1e9;
  const auto is_count = [](double value) { return value >= -1 && value <= most && value == std::floor(value); };
  const auto number = read_number(json, "top_k", "a whole number from 1, or 0 or -1 for all tokens", is_count);
  UsualSetting<std::uint64_t> top_k{.value = {}, .problem = number.problem};
  if (number.problem.empty() && number.value) top_k.value = static_cast<std::uint64_t>(std::max(0.0, *number.value));
  return top_k;
}

// transformers takes the likeliest tokens until they reach top_p, and at least one; from 1 on it takes all.
UsualSetting<double> read_top_p(const JsonFields& json) {
  auto top_p = read_number(json, "top_p", "0 or above", [](double value) { return value >= 0; });
  if (top_p.value) top_p.value = std::clamp(*top_p.value, std::numeric_limits<double>::min(), 1.0);
  return top_p;
}

// Without sampling the temperature says nothing.
UsualSetting<double> read_temperature(const JsonFields& json) {
  try {
    if (json.optional_flag("do_sample") == false) return {.value = 0.0, .problem = {}};
  } catch (const Error& error) {
    return {.value = {}, .problem = error.message()};
  }
  return read_number(json, "temperature", "0 or above", [](double value) { return value >= 0; });
}

std::string what_is_refused(const JsonFields& json, bool is_sampling) {
  for (const Undone& one : undone) {
    if (!json.has(one.field) || (one.only_if_sampling && !is_sampling)) continue;
    if (is_undone(Json::parse(json.json(one.field)), one)) continue;
    const Json values = Json::parse(one.values);
    const bool is_null = values.empty() || values.front().is_array();
    try {
      json.refuse_value(one.field,
                        str(is_null ? "null" : values.front().dump(), ", as inkling draws one token after the other"));
    } catch (const Error& error) {
      return error.message();
    }
  }
  return {};
}

}  // namespace

template <typename T>
T UsualSetting<T>::or_else(T otherwise) const {
  if (!problem.empty()) throw Error::input(problem);
  return value.value_or(otherwise);
}
template struct UsualSetting<double>;
template struct UsualSetting<std::uint64_t>;

KeptConfig read_kept_config(const std::filesystem::path& folder) {
  const JsonFields model(folder / "config.json", model_remedy);
  const auto text_of = [&](const char* field) { return model.has(field) ? model.json(field) : std::string(); };
  KeptConfig kept{
      .family = read_model_config(folder).family, .last = text_of("eos_token_id"), .first = text_of("bos_token_id")};
  if (!is_there(folder / file_name)) return kept;
  try {
    std::string text = read_small_file(folder / file_name);
    const JsonFields checked(folder / file_name, text, generation_remedy);
    kept.generation = std::move(text);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    log_warning(str("checkpoints get a new generation_config.json: ", error.message()));
  }
  return kept;
}

std::string print_ends(const std::string& kept, std::optional<Token> last) {
  Json before = kept.empty() ? Json() : Json::parse(kept);
  const Json list = before.is_array() ? before : Json::array({before});
  const auto is_token = [](const Json& one) { return one.is_number_unsigned(); };
  if (!std::all_of(list.begin(), list.end(), is_token)) before = Json();  // which nobody could read again
  const bool holds_last = last && std::find(list.begin(), list.end(), Json(*last)) != list.end();
  if (holds_last || (!last && !before.is_null())) return before.dump();
  return last ? Json(*last).dump() : "null";
}

std::string print_generation_config(const TextEnds& ends, const KeptConfig& kept) {
  const bool is_new = kept.generation.empty();
  const Json ours = {{"do_sample", true}, {"temperature", SamplingSettings{}.temperature}, {"top_k", 0}};
  Json json = is_new ? ours : Json::parse(kept.generation);
  const std::string before = json.contains("eos_token_id") ? json["eos_token_id"].dump() : kept.last;
  const std::string now = print_ends(before, ends.last);
  if (now != "null" && (is_new || now != before)) json["eos_token_id"] = Json::parse(now);
  if (ends.first && !json.contains("bos_token_id")) json["bos_token_id"] = *ends.first;
  return json.dump(2) + "\n";
}

GenerationConfig read_generation_config(const std::filesystem::path& folder, std::int64_t vocab_size) {
  GenerationConfig config;
  const JsonFields model(folder / "config.json", model_remedy);
  if (!is_there(folder / file_name)) {
    config.ends = read_tokens(model, "eos_token_id", vocab_size);
    return config;
  }
  const JsonFields json(folder / file_name, generation_remedy);
  const bool is_sampling = !json.has("do_sample") || json.json("do_sample") != "false";
  config.ends = read_tokens(json.has("eos_token_id") ? json : model, "eos_token_id", vocab_size);
  config.refused = what_is_refused(json, is_sampling);
  const auto is_positive = [](double value) { return value > 0; };
  const auto is_share = [](double value) { return value >= 0 && value <= 1; };
  config.temperature = read_temperature(json);
  config.top_k = read_top_k(json);
  config.top_p = read_top_p(json);
  config.min_p = read_number(json, "min_p", "from 0 to 1", is_share);
  config.repetition_penalty = read_number(json, "repetition_penalty", "above 0", is_positive);
  return config;
}

}  // namespace inkling
