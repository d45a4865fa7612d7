// Measures what this machine can do, and times steps of a run on random tokens.

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
#include "base/strings.h"
#include "base/system_files.h"
#include "doctor/forecast.h"
#include "runtime/cpu_memory.h"
#include "runtime/timing.h"
#include "train/resources.h"
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
  if (graphics.gpus.empty()) return "on the CPU always; the fused kernels train in nothing else there";
  const Gpu& gpu = graphics.gpus.front();
  return str("compute capability ", gpu.major, ".", gpu.minor, "; GPUs from 8.0 on are fastest in bfloat16");
}

std::string why_kernels(const Graphics& graphics) {
  return graphics.gpus.empty() ? "inkling's own loops for this processor"
                               : "fused CUDA kernels are used where asked for: runtime.kernels=fused";
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
    const double taken = seconds_of(run.runtime.device, [&] { trainer.step(step, windows); });
    if (step >= first) seconds.push_back(taken);
  }
  return seconds;
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

TokenSequence random_tokens(std::uint64_t vocab_size, std::uint64_t count) {
  const PassingFolder folder;
  const std::filesystem::path path = folder.path / "tokens.bin";
  TokenShardWriter writer(path, token_width_for(vocab_size));
  std::vector<Token> tokens(count);
  for (std::uint64_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>(random_below(1, i, vocab_size));
  writer.append(tokens);
  writer.commit();
  return TokenSequence({path}, vocab_size);
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
