#include "evaluate/choices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/strings.h"
#include "data/source_reader.h"
#include "evaluate/documents.h"
#include "formats/json.h"

namespace inkling {
namespace {

Passage passage_of(const std::vector<Token>& context, const std::vector<Token>& ending, std::size_t block_size) {
  const std::size_t given = std::min(context.size(), block_size + 1 - ending.size());
  Passage passage{{context.end() - static_cast<std::ptrdiff_t>(given), context.end()}, given};
  passage.tokens.insert(passage.tokens.end(), ending.begin(), ending.end());
  return passage;
}

double score_by(ChoiceRule rule, const ScoredPiece& ending, std::uint64_t characters) {
  if (rule == ChoiceRule::per_token) return -ending.nats / static_cast<double>(ending.tokens);
  return rule == ChoiceRule::sum ? -ending.nats : -ending.nats / static_cast<double>(characters);
}

std::size_t choose(ChoiceRule rule, const std::vector<ScoredPiece>& endings, const ChoiceExample& example) {
  std::vector<double> scores;
  for (std::size_t i = 0; i < endings.size(); ++i) {
    scores.push_back(score_by(rule, endings[i], example.characters.empty() ? 0 : example.characters[i]));
  }
  return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

// Gives endings of the same tokens the score of the first: the rows of a product may differ in their last bits, by
// their place in a batch.
void make_equals_equal(const ChoiceExample& example, std::vector<ScoredPiece>& scored) {
  std::map<std::vector<Token>, std::size_t> first;
  for (std::size_t i = 0; i < scored.size(); ++i)
    scored[i] = scored[first.try_emplace(example.endings[i], i).first->second];
}

Accuracy accuracy_of(std::uint64_t right, std::size_t examples) {
  const auto count = static_cast<double>(examples);
  const double value = static_cast<double>(right) / count;
  if (examples < 2) return {right, value, std::numeric_limits<double>::quiet_NaN()};
  return {right, value, std::sqrt(value * (1 - value) / (count - 1))};
}

// Scores the endings of examples, a pool at a time, in which those of similar lengths are computed together.
std::vector<ChoiceResult> score_endings(const Model& model, const Runtime& runtime, const ChoiceFile& file) {
  const auto block_size = static_cast<std::size_t>(model.shape().block_size);
  const std::size_t pool_tokens = tokens_of_pool(model, runtime);
  std::vector<ChoiceResult> results;
  std::vector<Passage> pool;
  Progress progress("evaluating", file.examples.size(), "examples");
  std::size_t pooled = 0;
  const auto score_pool = [&] {
    const std::vector<ScoredPiece> scored = score_passages(model, runtime, pool);
    auto next = scored.begin();
    while (next != scored.end()) {
      const ChoiceExample& example = file.examples[results.size()];
      const auto end = next + static_cast<std::ptrdiff_t>(example.endings.size());
      for (auto ending = next; ending != end; ++ending) {
        require_number(ending->nats, str(file.path.string(), ":", example.number));
      }
      results.push_back({{next, end}, {}});
      make_equals_equal(example, results.back().endings);
      next = end;
    }
    progress.update(results.size());
    pool.clear();
    pooled = 0;
  };
  for (const ChoiceExample& example : file.examples) {
    for (const std::vector<Token>& ending : example.endings) {
      pool.push_back(passage_of(example.context, ending, block_size));
      pooled += pool.back().tokens.size();
    }
    if (pooled >= pool_tokens) score_pool();
  }
  score_pool();
  return results;
}

// What Python's str.isspace() calls white space, which lm-eval goes by.
bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

// The length of the text without white space at its end, in bytes.
std::size_t length_without_spaces(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t begin = character_start(text, end - 1);
    const std::size_t before = begin;
    if (!is_space(decode_utf8(text, begin))) break;
    end = before;
  }
  return end;
}

// The tokens of a text, and in front of them what a tokenizer made elsewhere puts there. (inkling's own put nothing
// there: they separate documents.)
std::vector<Token> encode_text(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<Token> tokens;
  if (const std::optional<Token> start = document_start(tokenizer)) tokens.push_back(*start);
  const std::vector<Token> encoded = encode(tokenizer, text);
  tokens.insert(tokens.end(), encoded.begin(), encoded.end());
  return tokens;
}

// What lies behind the first `count` tokens, in memory of its own size: what is cut from a long text must not keep the
// memory of all of it.
std::vector<Token> behind(const std::vector<Token>& tokens, std::size_t count) {
  return {tokens.begin() + static_cast<std::ptrdiff_t>(count), tokens.end()};
}

void require_room(const std::string& place, std::size_t ending, std::size_t length, std::size_t block_size) {
  if (length <= block_size) return;
  throw Error::input(str(place, ": endings[", ending, "] has ", length, " tokens, and the model's block_size is ",
                         block_size, "; leave this example out"));
}

constexpr std::uint64_t most_named = 10;

// Reads an example by a call that throws Error input where it cannot be scored.
template <typename Read>
void add_example(ChoiceFile& file, Unusable unusable, const Read& read) {
  try {
    file.examples.push_back(read());
  } catch (const Error& error) {
    if (unusable == Unusable::refuse || error.kind() != ErrorKind::input) throw;
    if (++file.passed_over <= most_named) log_warning(str("passed over: ", error.message()));
  }
}

// Reads one line at `place`, which `fields` knows too.
class LineReader {
 public:
  LineReader(std::string place, const JsonFields& fields, const Tokenizer& tokenizer, std::size_t block_size)
      : place_(std::move(place)), fields_(fields), tokenizer_(tokenizer), block_size_(block_size) {}

  ChoiceExample read() const {
    const std::string context = fields_.text("context");
    const std::vector<std::string> endings = fields_.texts("endings");
    if (endings.size() < 2 || endings.size() > most_endings) {
      fields_.refuse(str("endings has ", endings.size(), " and must have 2 to ", most_endings));
    }
    ChoiceExample example;
    example.label = static_cast<std::size_t>(fields_.count("label", endings.size() - 1));
    const std::string_view stem = std::string_view(context).substr(0, length_without_spaces(context));
    const std::vector<Token> given = encoded("context", stem);
    example.context = given.empty() ? std::vector<Token>{in_front_of_nothing()} : behind(given, first_seen(given));
    for (std::size_t i = 0; i < endings.size(); ++i) {
      const std::string name = str("endings[", i, "]");
      if (endings[i].empty()) fields_.refuse(str(name, " is empty"));
      const std::vector<Token> whole = encoded(name, context + endings[i]);
      if (whole.size() <= given.size()) {
        fields_.refuse(str(name, " has no token of its own: with it the context has as few tokens as without"));
      }
      require_room(place_, i, whole.size() - given.size(), block_size_);
      example.endings.push_back(behind(whole, given.size()));
      example.characters.push_back(count_characters(endings[i]));
    }
    return example;
  }

 private:
  // Of a context, no model sees more than the last block_size tokens.
  std::size_t first_seen(const std::vector<Token>& given) const {
    return given.size() - std::min(given.size(), block_size_);
  }

  Token in_front_of_nothing() const {
    if (const std::optional<Token> front = token_in_front(tokenizer_)) return *front;
    fields_.refuse("context is empty, and the vocabulary has no token that stands in front of a text; give a context");
  }

  std::vector<Token> encoded(const std::string& field, std::string_view text) const {
    try {
      return encode_text(tokenizer_, text);
    } catch (const Error& error) {
      fields_.refuse(str(field, ": ", error.message()));
    }
  }

  std::string place_;
  const JsonFields& fields_;
  const Tokenizer& tokenizer_;
  std::size_t block_size_;
};

bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); }

// People forget the space between context and ending, and nothing else would tell them.
bool words_meet(const JsonFields& fields) {
  const std::string context = fields.text("context"), ending = fields.texts("endings").front();
  return !context.empty() && is_letter_or_digit(context.back()) && is_letter_or_digit(ending.front());
}

void read_lines(const std::string& text, const Tokenizer& tokenizer, std::size_t block_size, Unusable unusable,
                ChoiceFile& file) {
  std::string_view rest = text;
  if (rest.starts_with(byte_order_mark)) rest.remove_prefix(byte_order_mark.size());
  bool warned = false;
  LoneSurrogates lone;
  for (std::uint64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string place = str(file.path.string(), ":", number);
    if (const std::size_t found = count_lone_surrogates(line)) lone.add({.path = &file.path, .line = number}, found);
    add_example(file, unusable, [&] {
      const JsonFields fields(place, std::string(line),
                              "write {\"context\": \"…\", \"endings\": [\"…\", …], \"label\": 0} a line");
      ChoiceExample example = LineReader(place, fields, tokenizer, block_size).read();
      example.number = number;
      if (!warned && words_meet(fields)) {
        log_warning(str(place, ": nothing stands between the context and its endings, which are joined as they stand: ",
                        "write the space that belongs there at the end of the context"));
        warned = true;
      }
      return example;
    });
  }
  lone.warn();
}

void number_examples(std::vector<TokenChoice> read, std::size_t block_size, Unusable unusable, ChoiceFile& file) {
  for (std::size_t i = 0; i < read.size(); ++i) {
    add_example(file, unusable, [&] {
      for (std::size_t ending = 0; ending < read[i].endings.size(); ++ending) {
        require_room(str(file.path.string(), ": example ", i), ending, read[i].endings[ending].size(), block_size);
      }
      return ChoiceExample{std::move(read[i]), {}, i};
    });
  }
}

}  // namespace

ChoiceEvaluation evaluate_choices(const Model& model, const Runtime& runtime, const ChoiceFile& file) {
  ChoiceEvaluation evaluation{score_endings(model, runtime, file), {}};
  for (std::size_t rule = 0; rule < choice_rules - (file.has_text ? 0 : 1); ++rule) {
    std::uint64_t right = 0;
    for (std::size_t i = 0; i < file.examples.size(); ++i) {
      ChoiceResult& result = evaluation.results[i];
      result.chosen.push_back(choose(static_cast<ChoiceRule>(rule), result.endings, file.examples[i]));
      right += result.chosen.back() == file.examples[i].label ? 1 : 0;
    }
    evaluation.accuracies.push_back(accuracy_of(right, file.examples.size()));
  }
  return evaluation;
}

ChoiceFile read_choices(const fs::path& path, const LoadedModel& model, Unusable unusable) {
  const GptShape& shape = model.model->shape();
  ChoiceFile file{.path = path, .has_text = path.extension() != ".bin", .examples = {}};
  const std::string bytes = read_small_file(path);
  const auto block_size = static_cast<std::size_t>(shape.block_size);
  if (file.has_text) {
    read_lines(bytes, require_tokenizer(model), block_size, unusable, file);
  } else {
    number_examples(read_eval_file(path, bytes, static_cast<std::uint64_t>(shape.vocab_size)), block_size, unusable,
                    file);
  }
  const char* const kind = file.has_text ? " lines" : " examples";
  if (file.passed_over > most_named) {
    log_warning(str("passed over: ", file.passed_over - most_named, " more", kind, " of ", path.string()));
  }
  if (!file.examples.empty()) return file;
  if (file.passed_over == 0) throw Error::input(str(path.string(), ": there is no example in it; name another file"));
  throw Error::input(str(path.string(), ": all of its ", file.passed_over, kind,
                         " were passed over; correct them, or name another file"));
}

}  // namespace inkling
