#include "data/validation_bound.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/strings.h"

namespace inkling {

namespace {

constexpr std::string_view format_mark = "inkling-validation-bound";

std::uint64_t count_characters(std::string_view text) {
  return static_cast<std::uint64_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

double ValidationBound::nats() const {
  double sum = 0;
  for (const StoryBound& story : stories) sum += story.nats;
  return sum;
}

std::uint64_t ValidationBound::characters() const {
  std::uint64_t sum = 0;
  for (const StoryBound& story : stories) sum += story.characters;
  return sum;
}

std::uint64_t ValidationBound::tokens() const {
  std::uint64_t sum = 0;
  for (const StoryBound& story : stories) sum += story.tokens;
  return sum;
}

ValidationBound compute_bound(const Grammar& grammar, const Tokenizer& tokenizer, std::uint64_t seed,
                              std::uint64_t first, std::uint64_t end) {
  ValidationBound bound;
  for (std::uint64_t index = first; index < end; ++index) {
    const Story story = grammar.expand(seed, index);
    bound.stories.push_back({encode(tokenizer, story.text).size() + 1, count_characters(story.text) + 1, story.nats});
  }
  return bound;
}

void write_validation_bound(const fs::path& path, const ValidationBound& bound) {
  nlohmann::ordered_json stories = nlohmann::ordered_json::array();
  for (const StoryBound& story : bound.stories) stories.push_back({story.tokens, story.characters, story.nats});
  const nlohmann::ordered_json json{{"format", format_mark},
                                    {"nats", bound.nats()},
                                    {"characters", bound.characters()},
                                    {"tokens", bound.tokens()},
                                    {"stories", std::move(stories)}};
  write_file(path, json.dump() + "\n");
}

ValidationBound read_validation_bound(const fs::path& path) {
  const std::string text = read_small_file(path);
  ValidationBound bound;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("format") != format_mark) throw Error::input(str(path.string(), " holds no bound"));
    for (const nlohmann::json& story : json.at("stories")) {
      bound.stories.push_back({story.at(0).get<std::uint64_t>(), story.at(1).get<std::uint64_t>(), story.at(2)});
    }
  } catch (const nlohmann::json::exception&) {
    throw Error::input(str(path.string(), " is damaged: run inkling-prepare again with --verify"));
  }
  return bound;
}

}  // namespace inkling
