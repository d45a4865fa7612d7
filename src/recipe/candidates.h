// The candidates of a recipe: what could be trained in the time, what it is expected to come to, and the best of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "config/config.h"
#include "recipe/law.h"

namespace inkling::recipe {

// What decides a recipe. Equal values give equal recipes.
struct Question {
  Hardness text;
  std::vector<Vocabulary> vocabularies;  // that may be chosen
  double tail_bytes = 0;                 // of what is not trained on
  double seconds = 0;                    // of training
  std::vector<std::int64_t> contexts;    // that may be chosen: model.block_size
  DeviceChoice device = {};              // that runtime.device means
  Config asked = {};                     // what is settled: source, device, memory
};

struct Candidate {
  Vocabulary vocabulary;
  std::int64_t n_layer = 1, n_embd = 64, block_size = 256, batch_size = 8, steps = 1;
  double share = 1;         // of the time that training takes: less where it would learn the text by heart
  double step_seconds = 0;  // measured or, where it is not, in proportion to what was
  bool is_measured = false;
  double bits = 0;  // expected of the tail, per byte

  double parameters() const;  // of the blocks' matrices
  std::int64_t tokens_per_step() const { return batch_size * block_size; }
};

// Returns the seconds of a step of a configuration and a vocabulary's size, measured; it is called for few. expected:
// seconds, 0 where nothing is known.
using StepClock = std::function<double(const Config&, std::uint64_t vocab_size, double expected)>;

// Returns the settings of a candidate; its rates follow from its steps and its batch. Those of its shape are left out
// where it goes on from a model.
Config settings_of(const Candidate& candidate, const Question& question);

// Whether both parts of the text have room for windows of so many tokens.
bool holds_windows(const Question& question, const Vocabulary& vocabulary, std::int64_t block_size);

// Returns the candidates, the best one first, which fits into the memory and is measured; others may not fit. Throws
// Error input where the text is too short for each of them, and Error environment where none fits or the time is not
// enough for any.
std::vector<Candidate> choose(const Question& question, const StepClock& clock);

// The same where the model is there already, question.asked.model.init_from: `model` with a batch that makes between
// one and two thousand steps in the time, or the smallest one, or the largest that the memory holds. What it comes to
// is not expected. Throws Error environment where the time is not enough for fewest_steps_on steps.
inline constexpr std::int64_t fewest_steps_on = 10;
Candidate choose_batch(Candidate model, const Question& question, const StepClock& clock);

Planned planned(const Candidate& candidate);

// Why the settings of a candidate are as they are, by their keys.
std::map<std::string, std::string> reasons_for(const Candidate& candidate, const Question& question);

// What to expect of training by a candidate, in lines: bits per byte of the tail, and where the text is short for the
// time.
std::vector<std::string> outlook_of(const Candidate& candidate, const Question& question);

// The first candidates, a table for people.
std::string table_of(const std::vector<Candidate>& candidates);

// The steps that a candidate's share of so many seconds allows, when evaluations have had theirs.
std::int64_t steps_within(double seconds, const Candidate& candidate);

}  // namespace inkling::recipe
