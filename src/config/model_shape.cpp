#include "config/model_shape.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "config/fields.h"
#include "config/limits.h"
#include "config/yaml.h"

namespace inkling {
namespace {

std::vector<std::string> words_in(std::string_view text) {
  std::istringstream stream{std::string(text)};
  stream.imbue(std::locale::classic());
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

struct Form {
  std::string_view kind;
  std::size_t numbers;
};
constexpr Form pattern_forms[] = {{"full", 0}, {"local", 1}, {"dilated", 2}};
constexpr Form scaling_forms[] = {
    {word_of(ScalingKind::none), 0}, {word_of(ScalingKind::linear), 1}, {word_of(ScalingKind::llama3), 4}};

// A kind and as many numbers as belong to it, or what is wrong.
struct FormReading {
  std::string kind = {};
  std::vector<std::string> numbers = {};
  std::string problem = {};
};

FormReading read_form(std::string_view text, std::span<const Form> forms, std::string_view what) {
  std::vector<std::string> words = words_in(text);
  const std::string kind = words.empty() ? "" : words.front();
  const auto form = std::ranges::find(forms, kind, &Form::kind);
  if (form == forms.end()) {
    std::vector<std::string> kinds;
    for (const Form& each : forms) kinds.emplace_back(each.kind);
    const auto nearest = nearest_name(kind, kinds);
    return {.problem = nearest ? str("begins with ", shown(kind), "; did you mean ", *nearest, "?")
                               : str("is no such ", what)};
  }
  if (words.size() != 1 + form->numbers) {
    return {.problem = str("has ", words.size() - 1, " numbers, and ", kind, " takes ", form->numbers)};
  }
  words.erase(words.begin());
  return {.kind = kind, .numbers = std::move(words)};
}

}  // namespace

std::string pattern_text(const AttentionPattern& pattern) {
  if (pattern.is_full()) return "full";
  if (pattern.dilation == 1) return str("local ", pattern.window);
  return str("dilated ", pattern.window, " ", pattern.dilation);
}

std::vector<std::string> pattern_texts(const std::vector<AttentionPattern>& patterns) {
  std::vector<std::string> texts;
  for (const AttentionPattern& pattern : patterns) texts.push_back(pattern_text(pattern));
  return texts;
}

WordsReading<AttentionPattern> read_pattern(std::string_view text) {
  const FormReading form = read_form(text, pattern_forms, "pattern");
  if (!form.problem.empty()) return {{}, form.problem};
  std::int64_t numbers[2] = {AttentionPattern::everything, 1};
  for (std::size_t i = 0; i < form.numbers.size(); ++i) {
    const NumberReading<std::int64_t> number = read_whole_number(form.numbers[i]);
    const std::string_view name = i == 0 ? "window" : "distance";
    if (!number.value) return {{}, str("has a ", name, " that ", number.problem)};
    if (*number.value < 1 || *number.value > longest_block) {
      return {{},
              str("has a ", name, " of ", *number.value, ", and it takes a whole number from 1 to ", longest_block)};
    }
    numbers[i] = *number.value;
  }
  return {AttentionPattern{numbers[0], numbers[1]}, ""};
}

std::string rope_scaling_text(const RopeScaling& scaling) {
  switch (scaling.kind) {
    case ScalingKind::none:
      return "none";
    case ScalingKind::linear:
      return str("linear ", format_shortest(scaling.factor));
    case ScalingKind::llama3:
      return str("llama3 ", format_shortest(scaling.factor), " ", format_shortest(scaling.low), " ",
                 format_shortest(scaling.high), " ", scaling.original);
  }
  throw Error::internal("an unknown scaling");
}

WordsReading<RopeScaling> read_rope_scaling(std::string_view text) {
  const FormReading form = read_form(text, scaling_forms, "scaling");
  if (!form.problem.empty()) return {{}, form.problem};
  const auto& kinds = words_of<ScalingKind>;
  RopeScaling scaling = {.kind = static_cast<ScalingKind>(std::ranges::find(kinds, form.kind) - kinds.begin())};
  const struct {
    std::string_view name;
    double& value;
    double lowest;
  } places[] = {
      {"FACTOR", scaling.factor, 1}, {"LOW", scaling.low, least_rope_turns}, {"HIGH", scaling.high, least_rope_turns}};
  for (std::size_t i = 0; i < std::min(form.numbers.size(), std::size(places)); ++i) {
    const auto& [name, value, lowest] = places[i];
    const NumberReading<double> number = read_real_number(form.numbers[i]);
    if (!number.value) return {{}, str("has a ", name, " that ", number.problem)};
    if (*number.value < lowest || *number.value > most_rope_scaling) {
      return {{},
              str("has a ", name, " of ", form.numbers[i], ", and it takes a number from ", format_shortest(lowest),
                  " to ", format_shortest(most_rope_scaling))};
    }
    value = *number.value;
  }
  if (form.numbers.size() < 4) return {scaling, ""};
  if (scaling.high <= scaling.low) return {{}, "has a HIGH that is not above LOW"};
  const NumberReading<std::int64_t> original = read_whole_number(form.numbers[3]);
  if (!original.value) return {{}, str("has an ORIGINAL that ", original.problem)};
  if (*original.value < 1 || *original.value > longest_block) {
    return {{}, str("has an ORIGINAL of ", *original.value, ", and it takes a whole number from 1 to ", longest_block)};
  }
  scaling.original = *original.value;
  return {scaling, ""};
}

std::vector<AttentionPattern> shortest_patterns(std::vector<AttentionPattern> patterns) {
  if (std::ranges::all_of(patterns, &AttentionPattern::is_full)) return {};
  for (std::size_t period = 1; period < patterns.size(); ++period) {
    const auto shift = static_cast<std::ptrdiff_t>(period);
    if (patterns.size() % period != 0 || !std::equal(patterns.begin() + shift, patterns.end(), patterns.begin())) {
      continue;
    }
    patterns.resize(period);
    break;
  }
  return patterns;
}

std::vector<AttentionPattern> GptShape::layer_patterns() const {
  std::vector<AttentionPattern> all;
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(n_layer); ++layer)
    all.push_back(attention(layer).pattern);
  return all;
}

GptShape GptShape::without_auto() const {
  GptShape shape = *this;
  shape.n_kv_head = attention().n_kv_head;
  shape.head_size = attention().head_size;
  shape.n_inner = inner();
  return shape;
}

bool GptShape::is_endless() const {
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(n_layer); ++layer) {
    const AttentionPattern pattern = attention(layer).pattern;
    if (pattern.is_full() || pattern.reach() >= block_size) return false;
  }
  return !has_position_table(position);
}

}  // namespace inkling
