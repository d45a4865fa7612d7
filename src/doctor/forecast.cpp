#include "doctor/forecast.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/paths.h"
#include "base/random.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "base/system_files.h"
#include "model/parameters.h"
#include "optim/optimizer.h"
#include "runtime/cpu_memory.h"
#include "runtime/timing.h"
#include "train/resources.h"
#include "train/start.h"
#include "train/trainer.h"

namespace inkling::doctor {
namespace {

constexpr double product_seconds = 0.3;  // for each number of threads

// Several times the largest cache, but no more than a sixteenth of what is free.
std::int64_t bytes_to_read(const Facts& facts) {
  const std::uint64_t largest = largest_cache(facts.processor);
  const std::uint64_t wanted =
      std::clamp<std::uint64_t>(4 * largest, std::uint64_t{64} << 20, std::uint64_t{512} << 20);
  const std::uint64_t allowed = facts.memory.free().value_or(wanted * 16) / 16;
  return static_cast<std::int64_t>(std::max<std::uint64_t>(std::min(wanted, allowed), std::uint64_t{8} << 20));
}

double bandwidth(at::Device device, std::int64_t bytes) {
  MemoryReads reads(device, bytes);
  double best = 0.0;
  for (int round = 0; round < 4; ++round) best = std::max(best, reads.bytes_per_second());
  return best;
}

// One core, all that auto takes, and what hyper-threads would add or cost is left to the person.
std::set<int> thread_counts(int threads) { return {1, std::max(1, threads / 2), std::max(1, threads)}; }

std::string why_threads(const Runtime& runtime, const Processor& processor) {
  if (!runtime.thread_limit.empty()) return runtime.thread_limit;
  return processor.usable_threads > processor.cores ? "one for each physical core, not for each hyper-thread"
                                                    : "one for each core";
}

std::string why_device(const Graphics& graphics) {
  if (graphics.gpus.empty()) return graphics.why_none;
  return graphics.gpus.size() > 1 ? "the first GPU; a run uses one" : "there is a GPU that LibTorch can use";
}

std::string why_dtype(const Graphics& graphics) {
  if (graphics.gpus.empty()) return "always, on a CPU: the fused kernels train in float32 only";
  const Gpu& gpu = graphics.gpus.front();
  return str("compute capability ", gpu.major, ".", gpu.minor, "; GPUs from 8.0 on are fastest in bfloat16");
}

std::string why_kernels(const Graphics& graphics) {
  if (graphics.gpus.empty()) return "inkling's own loops for this processor";
  if (!has_fused_kernels(graphics.gpus.front().major)) {
    return "inkling's own CUDA kernels are for compute capability 8.0 and later";
  }
  return std::filesystem::exists(cuda_library_path()) ? "inkling's own CUDA kernels"
                                                      : "inkling was built without its CUDA kernels";
}

// Removed with all it holds at the end of the scope.
struct PassingFolder {
  std::filesystem::path path;

  PassingFolder() {
    std::error_code error;
    std::string name = (std::filesystem::temp_directory_path(error) / "inkling-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr) {
      throw Error::environment(str("cannot make a folder for temporary files (",
                                   error ? error.message() : errno_text(errno), "); name one with TMPDIR"));
    }
    path = name;
  }
  ~PassingFolder() { remove_everything(path); }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;
};

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
    leave_if_stopped();
    const double taken = seconds_of(run.runtime.device, [&] { trainer.step(step, windows); });
    if (step >= first) seconds.push_back(taken);
  }
  return seconds;
}

// Returns the mildest of a few settings with which the run fits into `limit`; "" if it fits with none of them.
std::string find_settings_that_fit(const ExpectedRun& run, std::uint64_t limit) {
  Config config = run.config;
  GptShape shape = run.shape;
  std::string flags;
  const auto fits = [&] { return training_memory(config, shape, run.runtime, 1).total() <= limit; };
  if (config.training.micro_batch_size) flags += " --set training.micro_batch_size=auto";
  if (!fits() && config.training.recompute != Recompute::block &&
      can_recompute_blocks(config.model.dropout, run.runtime)) {
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
    const BatchSplit settled = split_batch(run.config, run.shape, run.runtime, limit);
    size = settled.micro_batch_size;
    run.runtime.split = settled.split;
  } catch (const Error& error) {
    run.lacks_memory = true;
    run.why_not = error.message();
    run.fits_with = find_settings_that_fit(run, limit);
  }
  run.memory = training_memory(run.config, run.shape, run.runtime, size.value_or(1)).total();
}

}  // namespace

Speed measure_speed(const Runtime& runtime, const Facts& facts) {
  Speed speed{.dtype = runtime.dtype_name(), .device = runtime.device.str()};
  const auto options = at::TensorOptions().device(runtime.device).dtype(runtime.dtype);
  const bool has_threads = facts.graphics.gpus.empty();
  for (const int threads : has_threads ? thread_counts(runtime.threads) : std::set{runtime.threads}) {
    at::set_num_threads(threads);
    speed.products.push_back({threads, matrix_product_peak(options, product_seconds)});
  }
  if (has_threads) speed.thread_start = thread_start_seconds(product_seconds / 2);
  speed.memory = bandwidth(runtime.device, has_threads ? bytes_to_read(facts) : std::int64_t{512} << 20);
  return speed;
}

double product_flops(const Speed& speed, int threads) {
  const auto nearest = std::min_element(
      speed.products.begin(), speed.products.end(),
      [&](const auto& a, const auto& b) { return std::abs(a.threads - threads) < std::abs(b.threads - threads); });
  if (nearest == speed.products.end()) return 0.0;
  const bool on_gpu = speed.products.size() == 1;
  return on_gpu ? nearest->flops : nearest->flops * std::min(1.0, static_cast<double>(threads) / nearest->threads);
}

Choices explain_choices(const Runtime& runtime, const Facts& facts) {
  const std::uint64_t limit = memory_limit({}, runtime.device);
  return {.all = {{"device", runtime.device.str(), why_device(facts.graphics)},
                  {"dtype", runtime.dtype_name(), why_dtype(facts.graphics)},
                  {"kernels", std::string(word_of(runtime.kernels)), why_kernels(facts.graphics)},
                  {"threads", str(runtime.threads), why_threads(runtime, facts.processor)},
                  {"memory_limit", format_bytes(limit),
                   facts.graphics.gpus.empty() ? "four fifths of the memory that is free now"
                                               : "what is free on the GPU now"}}};
}

std::uint64_t expected_vocabulary(const DataConfig& data) {
  if (data.vocab_size > 0) return data.vocab_size;
  if (data.tokenizer.from == "gpt2") return 50257;
  switch (data.tokenizer.kind) {
    case TokenizerKind::byte:
      return 256;
    case TokenizerKind::sentencepiece:
    case TokenizerKind::bpe:
      return data.tokenizer.vocab_size;
    case TokenizerKind::character:
      break;
  }
  return 65;
}

TokenSequence passing_tokens(std::uint64_t vocab_size, std::span<const Token> tokens) {
  const PassingFolder folder;
  const std::filesystem::path path = folder.path / "tokens.bin";
  TokenShardWriter writer(path, token_width_for(vocab_size));
  writer.append(tokens);
  writer.commit();
  return TokenSequence({path}, vocab_size);
}

TokenSequence random_tokens(std::uint64_t vocab_size, std::uint64_t count) {
  std::vector<Token> tokens(count);
  for (std::uint64_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>(random_below(1, i, vocab_size));
  return passing_tokens(vocab_size, tokens);
}

ExpectedRun expect_run(const Config& config, const DeviceChoice& device, std::optional<std::uint64_t> vocab_size) {
  ExpectedRun run{.config = config, .shape = {}, .runtime = {}, .why_not = {}};
  if (!run.config.runtime.device) run.config.runtime.device = device;
  std::uint64_t tokens = vocab_size.value_or(expected_vocabulary(config.data));
  try {
    if (const auto initial = find_initial_model(config.model)) {
      run.config = inherit_model(run.config, *initial);
      tokens = std::max(tokens, static_cast<std::uint64_t>(initial->shape.vocab_size));
    }
    run.shape = shape_from(run.config.model, tokens);
    run.runtime = runtime_for(run.shape, resolve_runtime(run.config.runtime), config.data.keeps_documents_apart());
    check_recompute({.dropout = config.model.dropout, .recompute = config.training.recompute}, run.runtime);
  } catch (const Error& error) {
    run.why_not = error.message();
    run.lacks_device = error.kind() == ErrorKind::environment;
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
  const bool shares_out = run.runtime.split == WorkSplit::batch;  // threads are started for gradients, norm and update
  const double starts = shares_out ? 3.0 : passes * static_cast<double>(24 * run.shape.n_layer + 10) + 2.0;
  const double at_once = shares_out ? std::min(passes, static_cast<double>(run.runtime.threads)) : 1.0;
  const std::uint64_t kept = bytes.activations + bytes.logits;  // of the passes that are made at once
  const double moved = kept > cache ? 5.0 * static_cast<double>(kept) * passes / at_once : 0.0;
  const ParameterLayout layout(gpt_parameters(run.shape));
  const double flops = product_flops(speed, run.runtime.threads);
  const double products = optimizer_flops(run.config.optimizer, layout) / flops;
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
                    .lacks_device = run.lacks_device,
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
  forecast.split = word_of(run.runtime.split);
  forecast.disk = run_folder_bytes(run.config, run.shape, training.max_steps);
  if (!run.why_not.empty() || !speed) return forecast;
  const StepCosts costs = estimate_step(run, *speed, largest_cache(processor));
  forecast.step_seconds = costs.total();
  forecast.run_seconds = estimate_run(run.config, costs);
  forecast.arithmetic_share = costs.arithmetic / costs.total();
  return forecast;
}

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
