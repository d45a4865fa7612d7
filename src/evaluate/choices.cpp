#include "evaluate/choices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/progress.h"
#include "base/strings.h"

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

}  // namespace inkling
