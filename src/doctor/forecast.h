// What this machine can do, and what training a configuration takes on it: estimated from a few measured limits of the
// machine, or timed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "config/config.h"
#include "doctor/facts.h"
#include "formats/token_file.h"
#include "model/model.h"
#include "runtime/device.h"

namespace inkling::doctor {

// What `runtime` can do at most, measured in about half a second. Counts of threads in between are left out.
Speed measure_speed(const Runtime& runtime, const Facts& facts);

// The peak for a number of threads: what was measured for the nearest one, in proportion.
double product_flops(const Speed& speed, int threads);

// What `auto` means for each setting under runtime:, and why; it was decided by resolve_runtime() alone.
Choices explain_choices(const Runtime& runtime, const Facts& facts);

// A run as inkling-train would plan it, without its data.
struct ExpectedRun {
  Config config;  // with training.micro_batch_size a number, unless it does not fit
  GptShape shape;
  Runtime runtime;
  std::string why_not;  // what keeps it from being trained
  bool lacks_memory = false, lacks_device = false;
  std::string fits_with = {};  // " --set training.recompute=block", where memory lacks and that would do
  std::uint64_t memory = 0;    // bytes that training holds
};

// Plans it with inkling-train's own functions. `device` is what runtime.device: auto means. Throws nothing for what
// the machine lacks or the configuration wants from it, which why_not says; it is Error input for settings that go
// together with nothing. `vocab_size`: where it is known better than by the settings.
ExpectedRun expect_run(const Config& config, const DeviceChoice& device, std::optional<std::uint64_t> vocab_size = {});

// The seconds of one step in four parts: its arithmetic, and what stands beside it.
//   arithmetic: flops_per_token() of each token (Chowdhery et al. 2022), at the speed of a large product
//   memory:     what the forward pass keeps is written and read there, read backwards, and its gradient is written and
//               read: five times its bytes, but only where the caches hold less; AdamW reads four numbers of a weight
//               and writes three, and the gradient's norm reads one: eight
//   update:     of AdamW, the memory; of Muon, its products too
//   starting:   threads that take whole micro-batches begin and end three times: gradients, norm, update. Otherwise on
//               the CPU each operation begins and ends in all threads, which takes microseconds where nothing else
//               runs, and milliseconds where others take the cores. A layer has eight operations forwards (two norms,
//               four products, attention, activation) and sixteen backwards (two products for each, the sums of four
//               biases, and the other four); a pass has ten more (embedding, last norm, head), the update two
// Nothing is counted for products that run below the speed of a large one.
struct StepCosts {
  double arithmetic = 0.0, passes = 0.0, update = 0.0, starting = 0.0;  // seconds
  double total() const { return arithmetic + passes + update + starting; }
};
std::uint64_t largest_cache(const Processor& processor);
StepCosts estimate_step(const ExpectedRun& run, const Speed& speed, std::uint64_t cache);

// A whole run's seconds: its steps, and evaluations on both splits, whose forward pass is a third of a step's.
double estimate_run(const Config& config, const StepCosts& step);

// What is known of the run of the configuration at `path` without computing; `speed` is of its device and dtype, none
// if nothing was measured.
Forecast forecast_run(const ExpectedRun& run, const std::string& path, const std::optional<Speed>& speed,
                      const Processor& processor);

// Makes some steps on random tokens for about `most_seconds`, and writes what they took to the forecast. Where a step
// would take too long, it is made with fewer windows, and its time is scaled. Writes nothing but a passing temporary
// file. Throws OutOfMemory, Error environment if that file cannot be written, and Stopped (base/stop_signals.h).
void measure_run(const ExpectedRun& run, Forecast& forecast, double most_seconds);

// What a run can be timed with when its data has not been made: random tokens, on which the time does not depend.

// Tokens below vocab_size as a sequence. Its file is in the folder for temporary files (TMPDIR), and has no name any
// more, so nothing is left of it however the program ends. Error environment if it cannot be written.
TokenSequence passing_tokens(std::uint64_t vocab_size, std::span<const Token> tokens);

// The size of the vocabulary that the data would come with, as far as the settings say; 65, tiny Shakespeare's, for
// characters, whose number the text decides.
std::uint64_t expected_vocabulary(const DataConfig& data);

// The same of `count` random tokens.
TokenSequence random_tokens(std::uint64_t vocab_size, std::uint64_t count);

}  // namespace inkling::doctor
