// measure_run() of forecast.h.
#include <algorithm>
#include <chrono>

#include "doctor/forecast.h"
#include "doctor/random_tokens.h"
#include "runtime/cpu_memory.h"
#include "runtime/speed.h"
#include "train/trainer.h"

namespace inkling::doctor {
namespace {

constexpr std::size_t fewest_steps = 3, most_steps = 200;

// Fewer windows where a step is expected to take longer than a third of the time.
Config shortened(const ExpectedRun& run, double step_seconds, double most_seconds) {
  Config config = run.config;
  TrainingConfig& training = config.training;
  if (step_seconds > most_seconds / 3) {
    const double share = most_seconds / 3 / step_seconds;
    training.batch_size =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(training.batch_size) * share));
    std::int64_t rows = std::min(training.micro_batch_size.value(), training.batch_size);
    while (training.batch_size % rows != 0) --rows;
    training.micro_batch_size = rows;
  }
  return config;
}

// The seconds of steps until the time is over. The first steps take memory and, on a GPU, record what later ones
// repeat.
std::vector<double> time_steps(const Config& config, const ExpectedRun& run, double most_seconds) {
  const auto block = static_cast<std::uint64_t>(run.shape.block_size);
  const TokenSequence tokens = random_tokens(static_cast<std::uint64_t>(run.shape.vocab_size), 100'000 + 2 * block);
  const TrainingWindows windows(tokens, {.order = WindowKind::random, .block_size = block});
  Trainer trainer(config, run.shape, run.runtime);
  initialize(trainer.arena(), run.shape, config.training.seed, config.model.initialization);
  const auto start = std::chrono::steady_clock::now();
  const auto is_over = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > most_seconds;
  };
  std::vector<double> seconds;
  const std::int64_t first = trainer.runs_ahead() ? 3 : 1;
  for (std::int64_t step = 0; seconds.size() < fewest_steps || (seconds.size() < most_steps && !is_over()); ++step) {
    const double taken = seconds_of(run.runtime.device, [&] { trainer.step(step, windows); });
    if (step >= first) seconds.push_back(taken);
  }
  return seconds;
}

}  // namespace

void measure_run(const ExpectedRun& run, Forecast& forecast, double most_seconds) {
  resolve_runtime(run.config.runtime);  // its number of threads, for all of the process
  reuse_cpu_memory();
  const Config config = shortened(run, forecast.step_seconds, most_seconds);
  std::vector<double> seconds = time_steps(config, run, most_seconds);
  give_back_cpu_memory();
  std::sort(seconds.begin(), seconds.end());
  const double scale =
      static_cast<double>(run.config.training.batch_size) / static_cast<double>(config.training.batch_size);
  forecast.measured_windows = config.training.batch_size;
  forecast.measured_step = scale * seconds[seconds.size() / 2];
  forecast.measured_fastest = scale * seconds.front();
  forecast.measured_slowest = scale * seconds.back();
  forecast.measured_run = forecast.run_seconds * *forecast.measured_step / forecast.step_seconds;
}

}  // namespace inkling::doctor
