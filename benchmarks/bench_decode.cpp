// bench-decode CONFIG: tokens per second of generation, beside the memory bandwidth of the same minutes.
// Generating reads every weight once per token, so bandwidth is its limit. Weights are random: the time does not depend
// on them.
#include <chrono>
#include <nlohmann/json.hpp>

#include "backend/choose.h"
#include "config/config.h"
#include "generate/decoder.h"
#include "operation_times.h"
#include "program.h"
#include "results.h"
#include "runtime/timing.h"

namespace {

using namespace inkling;

struct Flags {
  std::string config;
  std::vector<std::string> overrides;
  std::int64_t tokens = 64;
  std::int64_t rows = 1;
  std::int64_t context = 5;
  std::uint64_t vocab_size = 50257;
  bool json = false;
};

int bench(int argc, char** argv) {
  CLI::App app("Times the generation of tokens by a model with random weights.", "bench-decode");
  Flags flags;
  app.add_option("CONFIG", flags.config, "a YAML configuration")->required();
  add_set_flag(app, flags.overrides, "override one setting");
  app.add_option("--tokens", flags.tokens, "how many tokens to time (default 64)")->check(CLI::PositiveNumber);
  app.add_option("--rows", flags.rows, "texts that grow together (default 1)")->check(CLI::PositiveNumber);
  app.add_option("--context", flags.context, "tokens that each text begins with (default 5)")
      ->check(CLI::PositiveNumber);
  app.add_option("--vocab-size", flags.vocab_size, "vocabulary (default 50257)");
  app.add_flag("--json", flags.json, "print one JSON object");
  if (!parse_flags(app, argc, argv)) return 0;

  const Config config = load_config(flags.config, flags.overrides);
  const Runtime runtime = resolve_runtime(config.runtime, Use::inference);
  const GptShape shape = shape_from(config.model, flags.vocab_size);
  const auto arena = make_arena(shape, runtime, Use::inference);
  initialize(*arena, shape, 1);
  arena->release_master(choose_backend(runtime).activation_dtype(runtime.dtype));
  const auto model = make_model(shape, *arena, runtime);
  constexpr std::int64_t observed_tokens = 10;
  const std::int64_t longest = flags.context + 3 + flags.tokens + observed_tokens;
  const auto decoder =
      make_decoder(*model, runtime, {.vocab_size = flags.vocab_size, .max_rows = flags.rows, .longest = longest});
  MemoryReads reads(runtime.device);

  std::vector<std::vector<Token>> texts(static_cast<std::size_t>(flags.rows),
                                        std::vector<Token>(static_cast<std::size_t>(flags.context), 0));
  // A token for each text, drawn with the default settings. On a GPU the next ones are under way when it returns.
  const auto step = [&] {
    std::vector<GrowingText> growing;
    for (std::size_t row = 0; row < texts.size(); ++row) growing.push_back({texts[row], row});
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Token> drawn = decoder->next(growing);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    for (std::size_t row = 0; row < texts.size(); ++row) texts[row].push_back(drawn[row]);
    return taken.count();
  };
  for (int i = 0; i < 3; ++i) step();
  std::vector<double> milliseconds, bandwidths;
  for (std::int64_t token = 0; token < flags.tokens; ++token) {
    milliseconds.push_back(step() * 1000);
    if (runtime.device.is_cpu() && token % 8 == 0) bandwidths.push_back(reads.bytes_per_second());
  }

  std::map<std::string, double> operations;
  {
    const OperationTimes observed;
    for (std::int64_t i = 0; i < observed_tokens; ++i) step();
    for (const auto& [name, seconds] : observed.seconds()) {
      operations[name] = 1000 * seconds / static_cast<double>(observed_tokens);
    }
  }

  for (int i = 0; i < 8 && runtime.device.is_cuda(); ++i) bandwidths.push_back(reads.bytes_per_second());

  // Every weight but the tables that are looked up: the head's table is read whole.
  const std::int64_t positions = shape.position == Position::learned ? shape.block_size * shape.n_embd : 0;
  const std::int64_t tokens = shape.tie_embeddings ? 0 : shape.vocab_size * shape.n_embd;
  const std::int64_t weights = arena->parameter_count() - positions - tokens;
  const double bytes = static_cast<double>(weights) * static_cast<double>(c10::elementSize(runtime.dtype));
  const double median = quantile(milliseconds, 0.5);
  const double bandwidth = quantile(bandwidths, 0.5);
  const nlohmann::ordered_json result = {{"device", runtime.device_name()},
                                         {"dtype", runtime.dtype_name()},
                                         {"kernels", word_of(runtime.kernels)},
                                         {"rows", flags.rows},
                                         {"ms_median", median},
                                         {"ms_p10", quantile(milliseconds, 0.1)},
                                         {"ms_p90", quantile(milliseconds, 0.9)},
                                         {"tokens_per_second", static_cast<double>(flags.rows) / median * 1000},
                                         {"weight_bytes", bytes},
                                         {"cache_bytes", flags.rows * cache_row_bytes(*model, runtime, longest)},
                                         {"memory_bytes_per_second", bandwidth},
                                         {"share_of_bandwidth", bytes / (median / 1000) / bandwidth},
                                         {"operations_ms", operations}};
  print_results(result, flags.json);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] { return bench(argc, argv); });
}
