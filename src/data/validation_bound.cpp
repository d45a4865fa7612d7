#include "data/validation_bound.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "formats/json.h"

namespace inkling {

namespace {

constexpr std::string_view bound_mark = "inkling-validation-bound";

[[noreturn]] void refuse() { throw Error::input("it is not what inkling-prepare writes"); }

// Fills a bound while its text is read. There is a list for every story, and JsonFields would hold all of them as
// values, many times the size of the text.
class BoundEvents final : public JsonEvents {
 public:
  ValidationBound take() {
    if (format_ != bound_mark || tokens_ != bound_.tokens() || characters_ != bound_.characters()) refuse();
    return std::move(bound_);
  }

  void open_object() override {
    if (level_++ != 0) refuse();
  }
  void open_list() override {
    if (level_ == 0 || level_ == 3 || name_ != "stories") refuse();
    if (level_++ == 2) numbers_ = 0;
  }
  void close() override {
    if (level_-- == 3 && numbers_ != 3) refuse();
  }
  void name(std::string_view name) override { name_ = name; }

  void scalar(const JsonScalar& value) override {
    if (level_ == 3) return read_story(value);
    if (level_ != 1) refuse();
    if (name_ == "format") format_ = of_type<std::string_view>(value);
    if (name_ == "tokens") tokens_ = of_type<std::uint64_t>(value);
    if (name_ == "characters") characters_ = of_type<std::uint64_t>(value);
  }

 private:
  template <typename Type>
  static Type of_type(const JsonScalar& value) {
    if (!std::holds_alternative<Type>(value)) refuse();
    return std::get<Type>(value);
  }

  void read_story(const JsonScalar& value) {
    ++numbers_;
    if (numbers_ == 1) bound_.stories.push_back({of_type<std::uint64_t>(value), 0, 0});
    if (numbers_ == 2) bound_.stories.back().characters = of_type<std::uint64_t>(value);
    if (numbers_ == 3) bound_.stories.back().nats = of_type<double>(value);
  }

  ValidationBound bound_;
  std::string format_, name_;
  std::uint64_t tokens_ = 0, characters_ = 0;
  int level_ = 0;    // 1 in the object, 2 in the list of stories, 3 in a story
  int numbers_ = 0;  // read of the story
};

template <typename Number>
Number sum_over(const std::vector<StoryBound>& stories, Number StoryBound::* number) {
  Number sum = 0;
  for (const StoryBound& story : stories) sum += story.*number;
  return sum;
}

}  // namespace

double ValidationBound::nats() const { return sum_over(stories, &StoryBound::nats); }
std::uint64_t ValidationBound::characters() const { return sum_over(stories, &StoryBound::characters); }
std::uint64_t ValidationBound::tokens() const { return sum_over(stories, &StoryBound::tokens); }

ValidationBound compute_bound(const Grammar& grammar, const Tokenizer& tokenizer, std::uint64_t seed,
                              std::uint64_t first, std::uint64_t end) {
  ValidationBound bound;
  for (std::uint64_t index = first; index < end; ++index) {
    leave_if_stopped();
    const Story story = grammar.expand(seed, index);
    const std::size_t tokens = encode(tokenizer, story.text).size() + (document_start(tokenizer) ? 2 : 1);
    bound.stories.push_back({tokens, count_characters(story.text) + 1, story.nats});
  }
  return bound;
}

void write_validation_bound(const fs::path& path, const ValidationBound& bound) {
  nlohmann::ordered_json stories = nlohmann::ordered_json::array();
  for (const StoryBound& story : bound.stories) stories.push_back({story.tokens, story.characters, story.nats});
  const nlohmann::ordered_json json{{"format", bound_mark},
                                    {"nats", bound.nats()},
                                    {"characters", bound.characters()},
                                    {"tokens", bound.tokens()},
                                    {"stories", std::move(stories)}};
  write_file(path, json.dump() + "\n");
}

ValidationBound read_validation_bound(const fs::path& path) {
  const std::string text = InputFile(path).read_all();
  try {
    check_json(text);
    BoundEvents events;
    read_json(text, events);
    return events.take();
  } catch (const Error& error) {
    throw Error::input(
        str(path.string(), " is damaged: ", error.message(), "; run inkling-prepare again with --verify"));
  }
}

}  // namespace inkling
