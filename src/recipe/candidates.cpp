#include "recipe/candidates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "doctor/forecast.h"
#include "model/parameters.h"
#include "optim/optimizer.h"
#include "train/resources.h"

namespace inkling::recipe {
namespace {

// Widths, and the depths that are weighed with them: in docs/benchmarks/recipes_*.md models of so many channels a layer
// are better than wider ones. Where a text is spelled by characters, it is the deepest, and it is short enough for
// them.
constexpr std::array<std::int64_t, 16> widths{32,  64,  96,  128, 160,  192,  256,  320,
                                              384, 512, 640, 768, 1024, 1280, 1536, 2048};
constexpr std::array<std::int64_t, 12> depths{1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24};
constexpr std::int64_t least_width_per_layer = 32, most_width_per_layer = 54;
constexpr std::array<std::int64_t, 8> step_sizes{1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};

constexpr double choice_ratio = 1.2;
// A GPU's small steps take as long as their launches do, whatever they compute.
constexpr double at_no_cost_on_gpu = 8;
constexpr std::int64_t evaluations = 5, evaluation_batches = 5;
// What evaluations take of the time, but not less than their batches, which are of either split and forward alone.
constexpr double evaluation_share = 0.02, evaluations_in_steps = 2.0 * evaluations * evaluation_batches / 3;
// With fewer the law was not fitted, and a single step may take long to measure.
constexpr std::int64_t fewest_steps = 100;

std::int64_t head_size(std::int64_t n_embd) { return n_embd < 512 ? 32 : 64; }

struct Weighed {
  Candidate candidate;
  double flops = 0;  // of a step: of its passes and of the update
};

// What was measured: the seconds of steps of so many operations.
class Pace {
 public:
  // A step of up to `at_no_cost` times the operations of the largest measured one is hoped to take no longer than that
  // one, until it is measured.
  explicit Pace(double at_no_cost) : at_no_cost_(std::log(at_no_cost)) {}

  void note(double flops, double seconds) {
    points_.emplace_back(std::log(flops), std::log(seconds));
    std::sort(points_.begin(), points_.end());
  }

  // Between two measured steps the logarithm of the time is a line; beyond them the time is in proportion to the
  // operations, but for what is hoped.
  double seconds(double flops) const {
    const double x = std::log(flops);
    const auto above = std::lower_bound(points_.begin(), points_.end(), std::pair(x, -1e300));
    if (above == points_.end()) {
      return std::exp(points_.back().second + std::max(0.0, x - points_.back().first - at_no_cost_));
    }
    if (above == points_.begin()) return std::exp(above->second + x - above->first);
    const auto below = above - 1;
    const double share = (x - below->first) / (above->first - below->first);
    return std::exp(below->second + share * (above->second - below->second));
  }

 private:
  double at_no_cost_;  // as a logarithm
  std::vector<std::pair<double, double>> points_;
};

// Adds the candidates of one vocabulary and shape: those of all contexts and batches.
void add_candidates(Candidate candidate, const Question& question, std::vector<Weighed>& all) {
  const Config config = settings_of(candidate, question);
  GptShape shape = shape_from(config.model, candidate.vocabulary.size);
  const double of_update = optimizer_flops(config.optimizer, ParameterLayout(gpt_parameters(shape)));
  for (const std::int64_t block_size : question.contexts) {
    if (!holds_windows(question, candidate.vocabulary, block_size)) continue;
    shape.block_size = candidate.block_size = block_size;
    for (const std::int64_t tokens : step_sizes) {
      candidate.batch_size = tokens / block_size;
      if (candidate.batch_size == 0) continue;
      const auto all_tokens = static_cast<double>(candidate.tokens_per_step());
      all.push_back({.candidate = candidate, .flops = all_tokens * flops_per_token(shape) + of_update});
    }
  }
}

std::vector<Weighed> list_candidates(const Question& question) {
  std::vector<Weighed> all;
  for (const Vocabulary& vocabulary : question.vocabularies) {
    const std::int64_t most = vocabulary.kind == TokenizerKind::bpe ? most_width_per_layer : least_width_per_layer;
    for (const std::int64_t n_embd : widths) {
      for (const std::int64_t n_layer : depths) {
        if (n_embd < least_width_per_layer * n_layer || n_embd > most * n_layer) continue;
        add_candidates({.vocabulary = vocabulary, .n_layer = n_layer, .n_embd = n_embd}, question, all);
      }
    }
  }
  return all;
}

void time_candidate(Weighed& weighed, Pace& pace, const Question& question, const StepClock& clock) {
  Candidate& candidate = weighed.candidate;
  const double measured = clock(settings_of(candidate, question), candidate.vocabulary.size, candidate.step_seconds);
  candidate.step_seconds = rounded_to(measured, choice_ratio);
  candidate.is_measured = true;
  pace.note(weighed.flops, candidate.step_seconds);
}

bool fits(const Weighed& weighed, const Question& question) {
  return doctor::expect_run(settings_of(weighed.candidate, question), question.device,
                            weighed.candidate.vocabulary.size)
      .why_not.empty();
}

// As many steps as the time allows, or as a half of it does, a quarter and so on, as long as that is expected to be
// better: a short text that is seen too often is learned by heart.
void take_steps(Candidate& candidate, const Question& question) {
  const auto with_share = [&](double share) {
    Candidate other = candidate;
    other.share = share;
    other.steps = steps_within(question.seconds, other);
    other.bits = other.steps < fewest_steps ? std::numeric_limits<double>::infinity()
                                            : expected_bits(question.text, planned(other));
    return other;
  };
  candidate = with_share(1);
  for (Candidate shorter = with_share(0.5); shorter.bits < candidate.bits; shorter = with_share(candidate.share / 2)) {
    candidate = shorter;
  }
}

void set_shape(Config& config, const Candidate& candidate) {
  config.data.tokenizer.kind = candidate.vocabulary.kind;
  if (candidate.vocabulary.kind == TokenizerKind::bpe) config.data.tokenizer.vocab_size = candidate.vocabulary.size;
  ModelConfig& model = config.model;
  model.n_layer = candidate.n_layer;
  model.n_head = candidate.n_embd / head_size(candidate.n_embd);
  model.n_embd = candidate.n_embd;
  model.block_size = candidate.block_size;
  model.bias = Bias::none;
  model.tie_embeddings = false;
  model.activation = Activation::swiglu;
  model.qk_norm = true;
  model.position = Position::rope;
  model.rope_theta = 1000;
  model.norm = NormKind::rmsnorm;
  model.norm_weights = false;
  model.embedding_norm = true;
  model.conv = 4;
  model.initialization = Initialization::zero_output;
}

OptimizerConfig optimizer_for(const Planned& run, double weight_decay) {
  const double rate = peak_rate(run);
  return {.name = OptimizerName::muon,
          .learning_rate = two_digits(0.4 * rate),
          .beta1 = 0.8,
          .beta2 = 0.99,
          .epsilon = 1e-10,
          .weight_decay = 0,
          .embedding_learning_rate = two_digits(rate),
          .vector_learning_rate = two_digits(2 * rate),
          .muon = {.learning_rate = two_digits(rate), .weight_decay = weight_decay}};
}

}  // namespace

bool holds_windows(const Question& question, const Vocabulary& vocabulary, std::int64_t block_size) {
  const double bytes = 1.25 * static_cast<double>(block_size + 1) * vocabulary.bytes_per_token;
  // A tail may be half as long, as it begins with a document if it can.
  return 2 * bytes < question.tail_bytes && 4 * bytes < question.text.training_bytes;
}

Config settings_of(const Candidate& candidate, const Question& question) {
  const Planned run = planned(candidate);
  const double seen = epochs(question.text, run);
  Config config = question.asked;
  if (config.model.init_from) {
    config.optimizer = {.learning_rate = two_digits(rate_on(candidate.n_embd))};
  } else {
    set_shape(config, candidate);
    config.optimizer = optimizer_for(run, weight_decay_for(seen));
  }
  config.model.dropout = dropout_for(question.text, run);
  config.schedule = {.name = ScheduleName::linear, .warmup_steps = candidate.steps / 50, .min_learning_rate = 0};
  config.training.max_steps = candidate.steps;
  config.training.batch_size = candidate.batch_size;
  config.evaluation = {.interval = std::max<std::int64_t>(1, (candidate.steps + evaluations - 1) / evaluations),
                       .batches = evaluation_batches};
  config.checkpoint.interval = std::max<std::int64_t>(1, (candidate.steps + 2) / 3);
  config.logging.interval = std::max<std::int64_t>(1, candidate.steps / 100);
  return config;
}

std::vector<Candidate> choose(const Question& question, const StepClock& clock) {
  std::vector<Weighed> all = list_candidates(question);
  Pace pace(question.device.cuda ? at_no_cost_on_gpu : 1);
  const auto weigh = [&](Weighed& weighed) {
    if (!weighed.candidate.is_measured) weighed.candidate.step_seconds = pace.seconds(weighed.flops);
    take_steps(weighed.candidate, question);
  };
  const auto is_better = [](const Weighed& a, const Weighed& b) { return a.candidate.bits < b.candidate.bits; };
  const auto is_smaller = [](const Weighed& a, const Weighed& b) { return a.flops < b.flops; };
  if (all.empty()) {
    throw Error::input(
        "there is no candidate with a context of so many tokens, for which the text is too short or a "
        "step too long: ask for a shorter one");
  }
  auto best = std::min_element(all.begin(), all.end(), is_smaller);
  if (!fits(*best, question)) throw Error::environment("not even the smallest model fits into the memory");
  // Each round measures the best one, until the best one has been measured.
  while (!best->candidate.is_measured) {
    if (fits(*best, question)) {
      time_candidate(*best, pace, question, clock);
    } else {
      const Candidate too_large = best->candidate;
      std::erase_if(all, [&](const Weighed& weighed) {
        const Candidate& other = weighed.candidate;
        return other.parameters() >= too_large.parameters() && other.tokens_per_step() >= too_large.tokens_per_step();
      });
      if (all.empty()) throw Error::environment("no model fits into the memory that training may hold");
    }
    for (Weighed& weighed : all) weigh(weighed);
    best = std::min_element(all.begin(), all.end(), is_better);
  }
  if (best->candidate.steps < fewest_steps) {
    throw Error::environment(
        str("the time is not enough for ", fewest_steps, " steps of a model on this machine: ask for more minutes"));
  }
  std::iter_swap(all.begin(), best);  // as others may be expected to be as good
  std::sort(all.begin() + 1, all.end(), is_better);
  std::vector<Candidate> candidates;
  for (const Weighed& weighed : all) candidates.push_back(weighed.candidate);
  return candidates;
}

Candidate choose_batch(Candidate model, const Question& question, const StepClock& clock) {
  constexpr std::int64_t most_steps = 2000;
  const auto measure = [&](Candidate& candidate) {
    candidate.step_seconds =
        clock(settings_of(candidate, question), candidate.vocabulary.size, 2 * candidate.step_seconds);
    candidate.steps = steps_within(question.seconds, candidate);
  };
  measure(model);
  while (model.steps >= most_steps && model.tokens_per_step() < step_sizes.back()) {
    Candidate larger = model;
    larger.batch_size *= 2;
    try {
      measure(larger);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::environment) throw;
      break;  // there is no memory for it
    }
    model = larger;
  }
  if (model.steps >= fewest_steps_on) return model;
  throw Error::environment(str("a step of the smallest batch takes ", format_fixed(model.step_seconds, 1),
                               " s on this machine: ask for more minutes, a shorter context or a smaller model"));
}

Planned planned(const Candidate& candidate) {
  return {.vocabulary = candidate.vocabulary,
          .layers = static_cast<double>(candidate.n_layer),
          .parameters = candidate.parameters(),
          .tokens_per_step = static_cast<double>(candidate.tokens_per_step()),
          .steps = static_cast<double>(candidate.steps),
          .block_size = static_cast<double>(candidate.block_size)};
}

std::int64_t steps_within(double seconds, const Candidate& candidate) {
  const double steps = candidate.share * seconds / candidate.step_seconds;
  const double of_evaluations = std::max(evaluation_share * steps, evaluations_in_steps);
  return std::max<std::int64_t>(1, std::llround(steps - of_evaluations));
}

double Candidate::parameters() const {
  const auto width = static_cast<double>(n_embd);
  return static_cast<double>(n_layer) * 12 * width * width;
}

std::map<std::string, std::string> reasons_for(const Candidate& best, const Question& question) {
  const double seen = epochs(question.text, planned(best));
  const std::string times =
      seen <= 1 ? std::string("once at most") : str(format_fixed(seen, seen < 10 ? 1 : 0), " times");
  const std::string minutes = str(format_fixed(best.share * question.seconds / 60, 1), " minutes");
  std::map<std::string, std::string> reasons = {
      {"data.source", "the text"},
      {"data.val_fraction", "its tail, which is not trained on, to measure by"},
      {"model.dropout", str("the text is seen ", times)},
      {"schedule.name", "down a straight line,"},
      {"schedule.warmup_steps", "after a fiftieth of the steps,"},
      {"schedule.min_learning_rate", "to nothing"},
      {"training.max_steps", str(minutes, " at ", format_fixed(1000 * best.step_seconds, 1), " ms")},
      {"training.batch_size", str(format_count(static_cast<std::uint64_t>(best.tokens_per_step())), " tokens a step")},
      {"evaluation.interval", "five in all"},
      {"evaluation.batches", "a glance: inkling-eval takes the whole tail"},
      {"checkpoint.interval", "three, and the best one"},
      {"logging.interval", "a hundred lines"}};
  const std::string as_asked = "as asked";
  if (question.asked.runtime.device) reasons["runtime.device"] = as_asked;
  if (question.asked.runtime.memory_limit_gib) reasons["runtime.memory_limit_gib"] = as_asked;
  if (question.asked.model.init_from) {
    reasons.insert({{"model.init_from", "the shape and the tokenizer come from there"},
                    {"optimizer.learning_rate", "low, to keep what the model has learned"}});
    return reasons;
  }
  reasons.insert(
      {{"data.tokenizer.kind", str(format_fixed(best.vocabulary.bytes_per_token, 2), " bytes a token")},
       {"model.n_layer", str("with the width, as large as ", minutes, " and the text allow")},
       {"model.n_head", str(head_size(best.n_embd), " channels each")},
       {"model.n_embd", str(best.n_embd / best.n_layer, " for each layer")},
       {"model.block_size", "tokens that it sees at once"},
       {"model.bias", "as models are built today: no biases,"},
       {"model.tie_embeddings", "a head of its own, which begins with zeros,"},
       {"model.activation", "a gate, which learns more by as many weights,"},
       {"model.qk_norm", "scores of attention that cannot run away,"},
       {"model.position", "distances instead of places,"},
       {"model.rope_theta", "for blocks of some hundred tokens,"},
       {"model.norm", "and norms without mean"},
       {"model.norm_weights", "or weights,"},
       {"model.embedding_norm", "of what comes in, too"},
       {"model.conv", "each token sees the three before it, long before attention has learned where to look"},
       {"model.initialization", "each block begins by changing nothing"},
       {"optimizer.name", "for the matrices inside the blocks; AdamW for the others"},
       {"optimizer.muon.learning_rate", "rises with the root of tokens a step, falls with that of steps"},
       {"optimizer.muon.weight_decay", "more of it where a text is seen often"},
       {"optimizer.learning_rate", "of the head, in proportion to Muon's, as are the next two:"},
       {"optimizer.embedding_learning_rate", "of the embeddings,"},
       {"optimizer.vector_learning_rate", "and of all that is no matrix"},
       {"optimizer.beta1", "a short memory of gradients for a short run,"},
       {"optimizer.beta2", "a longer one of their squares, as batches are small,"},
       {"optimizer.epsilon", "and next to nothing added to those"},
       {"optimizer.weight_decay", "of what AdamW updates"}});
  if (best.vocabulary.kind == TokenizerKind::bpe) {
    const bool was_chosen = question.vocabularies.size() > 1;
    reasons["data.tokenizer.vocab_size"] = was_chosen ? "the best of those weighed" : as_asked;
  }
  return reasons;
}

std::vector<std::string> outlook_of(const Candidate& candidate, const Question& question) {
  if (question.asked.model.init_from) {
    return {"what to expect is not known of weights that are there already; inkling-eval says what the run comes to"};
  }
  // 225 KB of Italian come to 2.11 bits per byte after 6 epochs, to 2.10 after 18, and to 2.13 after 23.
  constexpr double worth_while_epochs = 12;
  constexpr double far_larger = 10;  // two hours on two cores; a GPU trains as much in minutes
  const Planned run = planned(candidate);
  constexpr double at_random = 8;  // bits per byte
  const double bits = std::min(at_random, expected_bits(question.text, run)), seen = epochs(question.text, run);
  std::vector<std::string> lines = {str("expected of its tail: ", format_fixed(bits * (1 - law_spread), 2), " to ",
                                        format_fixed(bits * (1 + law_spread), 2),
                                        " bits per byte, which inkling-eval says of the run")};
  const double times_larger = run.parameters * run.tokens_per_step * run.steps / largest_fitted;
  if (times_larger > far_larger) {
    lines.push_back(str("that is a guess: weights times tokens are ",
                        format_count(static_cast<std::uint64_t>(two_digits(times_larger))),
                        " times those of the largest run that was measured for it"));
  }
  const std::string times = str("the text is seen ", format_fixed(seen, 0), " times");
  if (candidate.share < 1) {
    lines.push_back(str("ends after ", format_fixed(candidate.share * question.seconds, 0), " s of the ",
                        format_fixed(question.seconds, 0), ": ", times,
                        " by then, and would be learned by heart; more text would help"));
  } else if (seen > worth_while_epochs) {
    lines.push_back(str(times, ": more text would help, more time hardly"));
  }
  return lines;
}

std::string table_of(const std::vector<Candidate>& candidates) {
  constexpr std::size_t shown = 25;
  std::string table = "  bits  vocabulary  n_layer  n_embd  block_size  batch_size   steps  ms a step\n";
  const auto column = [](const std::string& text, std::size_t width) {
    return std::string(width - std::min(width, text.size()), ' ') + text;
  };
  for (std::size_t i = 0; i < std::min(shown, candidates.size()); ++i) {
    const Candidate& c = candidates[i];
    table += str(column(format_fixed(c.bits, 3), 6), column(str(c.vocabulary.size), 12), column(str(c.n_layer), 9),
                 column(str(c.n_embd), 8), column(str(c.block_size), 12), column(str(c.batch_size), 12),
                 column(str(c.steps), 8), column(format_fixed(1000 * c.step_seconds, 1), 11),
                 c.is_measured ? " measured" : "", "\n");
  }
  return table;
}

}  // namespace inkling::recipe
