#include "config/model_shape.h"

#include <algorithm>
#include <sstream>

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
constexpr Form forms[] = {{"full", 0}, {"local", 1}, {"dilated", 2}};

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

PatternReading read_pattern(std::string_view text) {
  const std::vector<std::string> words = words_in(text);
  const std::string kind = words.empty() ? "" : words.front();
  const auto form =
      std::find_if(std::begin(forms), std::end(forms), [&](const Form& each) { return each.kind == kind; });
  if (form == std::end(forms)) {
    const auto nearest = nearest_name(kind, std::vector<std::string>{"full", "local", "dilated"});
    return {{}, nearest ? str("begins with ", shown(kind), "; did you mean ", *nearest, "?") : "is no such pattern"};
  }
  if (words.size() != 1 + form->numbers) {
    return {{}, str("has ", words.size() - 1, " numbers, and ", kind, " takes ", form->numbers)};
  }
  std::int64_t numbers[2] = {AttentionPattern::everything, 1};
  for (std::size_t i = 0; i < form->numbers; ++i) {
    const NumberReading<std::int64_t> number = read_whole_number(words[1 + i]);
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
