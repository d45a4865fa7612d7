#include "generate/generator.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/strings.h"
#include "generate/decoder.h"
#include "text/text_stream.h"

namespace inkling {
namespace {

// A text in the making.
struct Row {
  std::size_t index;
  std::vector<Token> tokens;  // prompt included
  std::uint64_t random;       // key of its random numbers
  StreamDecoder characters;
  StopFilter stop;
};

std::vector<std::vector<Token>> encoded(const Tokenizer& tokenizer, std::span<const std::string> prompts,
                                        NamesInPrompt names) {
  std::vector<std::vector<Token>> all;
  for (const std::string& prompt : prompts) all.push_back(encode_prompt(tokenizer, prompt, names));
  return all;
}

// A special token shows in no text, so a stop string that names one means the token.
std::vector<Token> stop_tokens(const Tokenizer& tokenizer, const std::vector<std::string>& stops) {
  std::vector<Token> tokens;
  for (const std::string& stop : stops) {
    if (const auto token = find_special_token(tokenizer, stop)) tokens.push_back(*token);
  }
  return tokens;
}

// The tokens at which a text ends: those that are asked for, and the separator.
std::vector<Token> ends_of(const Tokenizer& tokenizer, const GenerationSettings& settings) {
  std::vector<Token> ends = settings.ends;
  if (const auto separator = tokenizer.separator()) ends.push_back(*separator);
  return ends;
}

// Returns the tokens of the longest text that can come of these prompts.
std::int64_t longest_text(const std::vector<std::vector<Token>>& prompts, std::uint64_t max_tokens) {
  std::size_t longest = 0;
  for (const std::vector<Token>& prompt : prompts) longest = std::max(longest, prompt.size());
  constexpr std::uint64_t most = std::uint64_t{1} << 40;  // of any number of tokens that a person may ask for
  return static_cast<std::int64_t>(longest + std::min(max_tokens, most));
}

class Generation {
 public:
  Generation(const ModelWithTokenizer& writer, std::span<const std::string> prompts, const GenerationSettings& settings,
             const Watcher& watcher)
      : tokenizer_(writer.tokenizer),
        ends_(ends_of(tokenizer_, settings)),
        stops_(stop_tokens(tokenizer_, settings.stops)),
        settings_(settings),
        watcher_(watcher),
        prompts_(encoded(tokenizer_, prompts, settings.names)),
        longest_(longest_text(prompts_, settings.max_tokens)),
        samples_(prompts.size() * settings.count),
        max_rows_(std::min(static_cast<std::int64_t>(std::max<std::size_t>(samples_.size(), 1)),
                           rows_together(writer.model, writer.runtime, longest_, cache_bytes(writer.runtime.device)))),
        decoder_(make_decoder(writer.model, writer.runtime,
                              {.sampling = settings.sampling,
                               .vocab_size = static_cast<std::uint64_t>(tokenizer_.vocab_size()),
                               .max_rows = max_rows_,
                               .longest = longest_,
                               .cache = settings.cache})) {
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      samples_[i].prompt = i / settings.count;
      samples_[i].number = i % settings.count;
    }
  }

  std::vector<Sample> run() {
    while (!interrupted_) {
      while (static_cast<std::int64_t>(rows_.size()) < max_rows_ && next_ < samples_.size()) open_next_row();
      if (rows_.empty()) return std::move(samples_);
      step();
    }
    for (const std::unique_ptr<Row>& row : rows_) samples_[row->index].finish = Finish::interrupted;
    for (; next_ < samples_.size(); ++next_) samples_[next_].finish = Finish::interrupted;
    return std::move(samples_);
  }

 private:
  void open_next_row() {
    const Sample& sample = samples_[next_];
    const std::vector<Token>& prompt = prompts_[sample.prompt];
    const bool begins_document = decode(tokenizer_, prompt).empty();
    rows_.push_back(
        std::make_unique<Row>(Row{next_, prompt, random_key(settings_.seed, Purpose::sampling, sample.number),
                                  StreamDecoder(tokenizer_, begins_document), StopFilter(settings_.stops)}));
    ++next_;
  }

  // Adds a token to every row. Rows that end are removed from the back, so that none is met twice.
  void step() {
    std::vector<GrowingText> texts;
    for (const std::unique_ptr<Row>& row : rows_) texts.push_back({row->tokens, row->random});
    const std::vector<Token> drawn = decoder_->next(texts);
    std::vector<bool> ended;
    for (std::size_t i = 0; i < rows_.size() && !interrupted_; ++i) ended.push_back(extend(*rows_[i], drawn[i]));
    for (std::size_t i = ended.size(); i-- > 0;) {
      if (!ended[i]) continue;
      decoder_->remove(i);
      rows_[i] = std::move(rows_.back());
      rows_.pop_back();
    }
  }

  // Returns whether the token is the row's last.
  bool extend(Row& row, Token token) {
    row.tokens.push_back(token);
    Sample& sample = samples_[row.index];
    ++sample.tokens;

    std::optional<Finish> finish;
    std::string piece;
    if (std::find(stops_.begin(), stops_.end(), token) != stops_.end()) {
      piece = row.characters.finish();
      finish = Finish::stop;
    } else if (std::find(ends_.begin(), ends_.end(), token) == ends_.end()) {
      piece = row.characters.push(token);
    } else {
      piece = row.characters.finish();
      if (settings_.ignore_end) piece += '\n';
      if (!settings_.ignore_end) finish = Finish::end;
    }
    // A character that the limit cuts in two is left out.
    if (!finish && sample.tokens >= settings_.max_tokens) finish = Finish::length;
    std::string added = row.stop.push(piece);
    if (row.stop.found()) finish = Finish::stop;
    if (finish) {
      added += row.stop.finish();
      sample.finish = *finish;
    }
    sample.text += added;
    if (watcher_ && !watcher_(row.index, sample, added, finish.has_value())) interrupted_ = true;
    return finish.has_value();
  }

  const Tokenizer& tokenizer_;
  std::vector<Token> ends_, stops_;
  const GenerationSettings& settings_;
  const Watcher& watcher_;
  std::vector<std::vector<Token>> prompts_;
  std::int64_t longest_;
  std::vector<Sample> samples_;
  std::size_t next_ = 0;  // the first sample not begun
  std::int64_t max_rows_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<std::unique_ptr<Row>> rows_;
  bool interrupted_ = false;
};

}  // namespace

std::string_view finish_name(Finish finish) {
  switch (finish) {
    case Finish::length:
      return "length";
    case Finish::stop:
      return "stop";
    case Finish::end:
      return "end";
    case Finish::interrupted:
      return "interrupted";
  }
  throw Error::internal("an unknown way for a sample to end");
}

void check_settings(const GenerationSettings& settings) {
  check_settings(settings.sampling);
  if (settings.count == 0) throw Error::input("count is 0 and must be at least 1");
  if (settings.max_tokens == 0) throw Error::input("max_tokens is 0 and must be at least 1");
  StopFilter(settings.stops);
}

std::vector<Sample> generate(const LoadedModel& model, std::span<const std::string> prompts,
                             const GenerationSettings& settings, const Watcher& watcher) {
  check_settings(settings);
  const ModelWithTokenizer writer = {
      .model = *model.model, .runtime = model.runtime, .tokenizer = require_tokenizer(model)};
  return Generation(writer, prompts, settings, watcher).run();
}

std::vector<Sample> generate(const ModelWithTokenizer& writer, std::span<const std::string> prompts,
                             const GenerationSettings& settings, const Watcher& watcher) {
  check_settings(settings);
  return Generation(writer, prompts, settings, watcher).run();
}

}  // namespace inkling
