#include "doctor/forecast.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/strings.h"
#include "model/parameters.h"
#include "optim/muon.h"
#include "optim/optimizer.h"
#include "train/resources.h"
#include "train/start.h"

namespace inkling::doctor {
namespace {

// Returns the mildest of a few settings with which the run fits into `limit`; "" if it fits with none of them.
std::string find_settings_that_fit(const ExpectedRun& run, std::uint64_t limit) {
  Config config = run.config;
  GptShape shape = run.shape;
  std::string flags;
  const auto fits = [&] { return training_memory(config, shape, run.runtime, 1).total() <= limit; };
  if (config.training.micro_batch_size) flags += " --set training.micro_batch_size=auto";
  if (!fits() && config.training.recompute != Recompute::block) {
    config.training.recompute = Recompute::block;
    flags += " --set training.recompute=block";
  }
  constexpr std::int64_t least_block = 64;
  if (!fits() && shape.block_size > least_block) {
    while (!fits() && shape.block_size > least_block) shape.block_size /= 2;
    flags += str(" --set model.block_size=", shape.block_size);
  }
  return fits() ? flags : "";
}

// Settles micro-batches and memory, or says why they cannot be settled.
void settle_memory(ExpectedRun& run) {
  const std::uint64_t limit = memory_limit(run.config.runtime, run.runtime.device);
  std::optional<std::int64_t>& size = run.config.training.micro_batch_size;
  try {
    size = fitting_micro_batch_size(run.config, run.shape, run.runtime, limit);
  } catch (const Error& error) {
    run.lacks_memory = true;
    run.why_not = error.message();
    run.fits_with = find_settings_that_fit(run, limit);
  }
  run.memory = training_memory(run.config, run.shape, run.runtime, size.value_or(1)).total();
}

}  // namespace

ExpectedRun expect_run(const Config& config, const DeviceChoice& device) {
  ExpectedRun run{.config = config, .shape = {}, .runtime = {}, .why_not = {}};
  if (!run.config.runtime.device) run.config.runtime.device = device;
  std::uint64_t tokens = expected_vocabulary(config.data);
  try {
    if (const auto initial = find_initial_model(config.model)) {
      run.config = inherit_model(run.config, *initial);
      tokens = std::max(tokens, static_cast<std::uint64_t>(initial->shape.vocab_size));
    }
    run.shape = shape_from(run.config.model, tokens);
    run.runtime = runtime_for(run.shape, resolve_runtime(run.config.runtime));
    check_recompute({.dropout = config.model.dropout, .recompute = config.training.recompute}, run.runtime);
  } catch (const Error& error) {
    run.why_not = error.message();
    return run;
  }
  settle_memory(run);
  return run;
}

std::uint64_t largest_cache(const Processor& processor) {
  std::uint64_t largest = 0;
  for (const CacheSize& cache : processor.caches) largest = std::max(largest, cache.bytes);
  return largest;
}

StepCosts estimate_step(const ExpectedRun& run, const Speed& speed, std::uint64_t cache) {
  const TrainingConfig& training = run.config.training;
  const std::int64_t rows = training.micro_batch_size.value();
  const double passes = static_cast<double>(training.batch_size) / static_cast<double>(rows);
  const double tokens = static_cast<double>(training.batch_size * run.shape.block_size);
  const TrainingBytes bytes = training_memory(run.config, run.shape, run.runtime, rows);
  const std::uint64_t kept = bytes.activations + bytes.logits;
  const double moved = kept > cache ? 5.0 * static_cast<double>(kept) * passes : 0.0;
  const double starts = passes * static_cast<double>(24 * run.shape.n_layer + 10) + 2.0;
  const ParameterLayout layout(gpt_parameters(run.shape));
  const double flops = product_flops(speed, run.runtime.threads);
  const OptimizerConfig& optimizer = run.config.optimizer;
  const double products =
      optimizer.name == OptimizerName::muon ? muon_flops(layout, optimizer.muon.newton_schulz_steps) / flops : 0.0;
  return {.arithmetic = tokens * flops_per_token(run.shape) / flops,
          .passes = moved / speed.memory,
          .update = 8.0 * sizeof(float) * static_cast<double>(layout.size()) / speed.memory + products,
          .starting = run.runtime.threads > 1 ? starts * speed.thread_start : 0.0};
}

double estimate_run(const Config& config, const StepCosts& step) {
  const double steps = static_cast<double>(config.training.max_steps);
  const double evaluations = std::ceil(steps / static_cast<double>(config.evaluation.interval));
  const double losses = config.training.ema > 0 ? 3.0 : 2.0;  // of either split, and of the averaged weights
  const double batches = losses * static_cast<double>(config.evaluation.batches);
  return steps * step.total() + evaluations * batches * (step.arithmetic + step.passes + step.starting) / 3.0;
}

Forecast forecast_run(const ExpectedRun& run, const std::string& path, const std::optional<Speed>& speed,
                      const Processor& processor) {
  Forecast forecast{.name = std::filesystem::path(path).stem().string(),
                    .path = path,
                    .why_not = run.why_not,
                    .lacks_memory = run.lacks_memory,
                    .fits_with = run.fits_with,
                    .memory = run.memory};
  if (run.shape.vocab_size == 0) return forecast;
  const TrainingConfig& training = run.config.training;
  forecast.parameters = static_cast<std::uint64_t>(ParameterLayout(gpt_parameters(run.shape)).parameter_count());
  forecast.vocabulary = static_cast<std::uint64_t>(run.shape.vocab_size);
  forecast.runs_on = str(run.runtime.device_name(), " in ", run.runtime.dtype_name());
  forecast.steps = training.max_steps;
  forecast.batch_size = training.batch_size;
  forecast.micro_batch_size = training.micro_batch_size.value_or(0);
  forecast.disk = run_folder_bytes(run.config, run.shape, training.max_steps);
  if (!run.why_not.empty() || !speed) return forecast;
  const StepCosts costs = estimate_step(run, *speed, largest_cache(processor));
  forecast.step_seconds = costs.total();
  forecast.run_seconds = estimate_run(run.config, costs);
  forecast.arithmetic_share = costs.arithmetic / costs.total();
  return forecast;
}

}  // namespace inkling::doctor
