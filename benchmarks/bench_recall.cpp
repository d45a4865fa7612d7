// bench-recall RUN: how far a model that was trained on data/recall.grammar looks back. It scores new stories of the
// grammar at the answers alone: names that follow a thing whose holder the story has named before, by how many tokens
// ago that was.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_weights.h"
#include "config/config.h"
#include "data/grammar.h"
#include "generate/decoder.h"
#include "model_flags.h"
#include "program.h"
#include "results.h"
#include "text/prompts.h"

namespace {

using namespace inkling;

struct Flags {
  ModelFlags model;
  std::int64_t stories = 500;
  std::uint64_t seed = 1'000'003;
  bool json = false;
};

// Distances in tokens, from a name back to where the story said it last.
struct Bin {
  const char* name;
  std::int64_t shortest, longest;
  std::vector<double> losses = {};
};

// A name of the story: which token it is, and how far back the same thing was asked or told of; 0: nowhere.
struct Answer {
  std::int64_t place, distance;
};

std::string word_of_token(const Tokenizer& tokenizer, Token token) {
  const std::string text = tokenizer.decode(token);
  return text.starts_with(' ') ? text.substr(1) : text;
}

// Finds "the THING NAME VERB," wherever it stands. Throws Error input if a thing, a name or a verb is more than one
// token.
std::vector<Answer> find_answers(const std::vector<std::string>& words, std::set<std::string>& names) {
  std::map<std::string, std::int64_t> last;  // place of a thing's name
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] != "the") continue;
    if (i + 4 >= words.size() || words[i + 4] != ",") {
      throw Error::input(
          "the model's tokenizer has no token for each word of the stories: raise "
          "data.tokenizer.vocab_size");
    }
    const auto place = static_cast<std::int64_t>(i + 2);
    const auto [known, is_new] = last.try_emplace(words[i + 1], place);
    answers.push_back({place, is_new ? 0 : place - known->second});
    known->second = place;
    names.insert(words[i + 2]);
  }
  return answers;
}

// Returns -log of each token's probability, given those before it.
std::vector<double> nats_of(const LoadedModel& model, const std::vector<Token>& tokens) {
  const at::NoGradGuard no_gradient;
  const at::Tensor text = to_device(tokens, model.runtime.device);
  const std::int64_t targets = text.size(0) - 1;
  const at::Tensor logits = model.model->logits(text.narrow(0, 0, targets).unsqueeze(0)).squeeze(0).to(at::kFloat);
  const at::Tensor nats = at::cross_entropy_loss(logits, text.narrow(0, 1, targets), {}, 0 /* each alone */)
                              .to(at::kDouble)
                              .cpu()
                              .contiguous();
  std::vector<double> all = {0.0};
  all.insert(all.end(), nats.data_ptr<double>(), nats.data_ptr<double>() + targets);
  return all;
}

double mean_of(const std::vector<double>& values) {
  double total = 0.0;
  for (const double value : values) total += value;
  return total / static_cast<double>(values.size());
}

double standard_error(const std::vector<double>& values) {
  double squares = 0.0;
  const double mean = mean_of(values);
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto count = static_cast<double>(values.size());
  return std::sqrt(squares / (count - 1) / count);
}

int bench(int argc, char** argv) {
  CLI::App app("Scores the answers in stories of data/recall.grammar by how far back they were given.", "bench-recall");
  Flags flags;
  add_model_flags(app, flags.model);
  app.add_option("--stories", flags.stories, "how many (default 500)")->check(CLI::PositiveNumber);
  app.add_option("--seed", flags.seed, "of the stories; not data.grammar_seed (default 1000003)");
  app.add_flag("--json", flags.json, "print one JSON object");
  add_runtime_flags(app, flags.model);
  if (!parse_flags(app, argc, argv)) return 0;

  const fs::path folder = find_checkpoint(flags.model.place, flags.model.checkpoint);
  const Config config = load_kept_config(folder / "config.yaml", {});
  if (flags.seed == config.data.grammar_seed) throw Error::input("the model was trained on the stories of this --seed");
  const LoadedModel model = load_model(folder, flags.model);
  const Tokenizer& tokenizer = require_tokenizer(model);
  const Grammar grammar = Grammar::load(config.data.source.front());

  std::vector<Bin> bins = {{"30", 20, 44}, {"120", 95, 149}, {"400", 350, 449}};
  std::map<std::int64_t, std::vector<double>> by_distance;
  std::vector<double> untold;
  std::set<std::string> names;
  for (std::int64_t i = 0; i < flags.stories; ++i) {
    const std::vector<Token> tokens =
        encode_prompt(tokenizer, grammar.expand(flags.seed, static_cast<std::uint64_t>(i)).text);
    std::vector<std::string> words;
    for (const Token token : tokens) words.push_back(word_of_token(tokenizer, token));
    const std::vector<double> nats = nats_of(model, tokens);
    for (const Answer& answer : find_answers(words, names)) {
      const double loss = nats[static_cast<std::size_t>(answer.place)];
      (answer.distance == 0 ? untold : by_distance[answer.distance]).push_back(loss);
      for (Bin& bin : bins) {
        if (answer.distance >= bin.shortest && answer.distance <= bin.longest) bin.losses.push_back(loss);
      }
    }
  }
  const double guess = std::log(static_cast<double>(names.size()));
  nlohmann::ordered_json result = {{"names", names.size()}, {"guessing_nats", guess}, {"untold_nats", mean_of(untold)}};
  for (const Bin& bin : bins) {
    if (bin.losses.size() < 2) throw Error::input(str("the stories have no answers around ", bin.name, " tokens away"));
    result[str("around_", bin.name)] = {{"tokens", {bin.shortest, bin.longest}},
                                        {"answers", bin.losses.size()},
                                        {"nats", mean_of(bin.losses)},
                                        {"standard_error", standard_error(bin.losses)},
                                        {"of_guessing", mean_of(bin.losses) / guess}};
  }
  for (const auto& [distance, losses] : by_distance) {
    result["by_distance"].push_back({{"distance", distance}, {"answers", losses.size()}, {"nats", mean_of(losses)}});
  }
  print_results(result, flags.json);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] { return bench(argc, argv); });
}
