// bench-step CONFIG: how long a training step takes, beside the time of its matrix products alone in the same run.
// Tokens are random: no data is needed, and the time does not depend on them.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/config.h"
#include "doctor/forecast.h"
#include "operation_times.h"
#include "program.h"
#include "results.h"
#include "runtime/cpu_memory.h"
#include "runtime/device.h"
#include "runtime/timing.h"
#include "train/resources.h"
#include "train/trainer.h"

namespace {

using namespace inkling;

struct Flags {
  std::string config;
  std::vector<std::string> overrides;
  std::int64_t steps = 50;
  std::uint64_t vocab_size = 0;
  bool json = false;
};

// The products of one step's linear layers and head: forward, gradient of the input, gradient of the weight. Each layer
// has inputs and outputs of its own, as in a step, up to a limit of memory; beyond it layers take turns with them,
// which no cache is large enough to notice.
class MatrixProducts {
 public:
  MatrixProducts(const GptShape& shape, std::int64_t rows, std::int64_t micro_batches, const at::TensorOptions& options)
      : micro_batches_(micro_batches) {
    const std::int64_t c = shape.n_embd;
    const AttentionForm heads = shape.attention();
    const std::vector<std::pair<std::int64_t, std::int64_t>> of_a_layer = {
        {c, heads.packed()}, {heads.queries(), c}, {c, shape.widened()}, {shape.inner(), c}};
    std::int64_t layer_bytes = 0;
    for (const auto& [in, out] : of_a_layer) {
      layer_bytes += rows * (2 * in + out) * static_cast<std::int64_t>(options.dtype().itemsize());
    }
    const std::size_t own =
        of_a_layer.size() * static_cast<std::size_t>(std::max<std::int64_t>(max_bytes / layer_bytes, 1));
    for (std::int64_t layer = 0; layer < shape.n_layer; ++layer) {
      for (const auto& [in, out] : of_a_layer) {
        add(rows, in, out, options, products_.size() < own ? nullptr : &products_[products_.size() - own]);
      }
    }
    // cuBLAS is slow where rows do not begin at multiples of 16 bytes, which the model's head takes care of.
    const std::int64_t unit = options.device().is_cuda() ? 64 : 1;
    add(rows, c, (shape.vocab_size + unit - 1) / unit * unit, options, nullptr);
  }

  void run() {
    for (std::int64_t micro = 0; micro < micro_batches_; ++micro) {
      for (Product& p : products_) at::mm_out(p.y, p.x, p.w);
      for (Product& p : products_) {
        at::mm_out(p.dx, p.y, p.w.t());
        p.dw.addmm_(p.x.t(), p.y);
      }
    }
  }

 private:
  static constexpr std::int64_t max_bytes = std::int64_t{2} << 30;

  struct Product {
    at::Tensor x = {}, w = {}, y = {}, dx = {}, dw = {};
  };
  void add(std::int64_t rows, std::int64_t in, std::int64_t out, const at::TensorOptions& options,
           const Product* like) {
    Product product = like != nullptr ? *like
                                      : Product{.x = at::randn({rows, in}, options),
                                                .y = at::empty({rows, out}, options),
                                                .dx = at::empty({rows, in}, options)};
    product.w = at::randn({in, out}, options).mul_(0.02);
    product.dw = at::zeros_like(product.w);
    products_.push_back(product);
  }
  std::vector<Product> products_;
  std::int64_t micro_batches_;
};

struct Times {
  std::vector<double> steps, products;       // ms
  std::map<std::string, double> operations;  // ms of a step, of a few more steps
  double peak_flops = 0;                     // per second, of a large product
};

// Steps and products take turns in blocks, so that both see the same minutes of a shared machine.
Times measure(const Config& config, const Flags& flags, const Runtime& runtime, const GptShape& shape,
              std::int64_t rows) {
  const TokenSequence tokens =
      doctor::random_tokens(static_cast<std::uint64_t>(shape.vocab_size), 200000 + static_cast<std::uint64_t>(rows));
  const TrainingWindows windows(
      tokens, {.order = WindowKind::random, .block_size = static_cast<std::uint64_t>(shape.block_size)});
  Trainer trainer(config, shape, runtime);
  initialize(trainer.arena(), shape, config.training.seed, config.model.initialization);
  MatrixProducts products(shape, rows, config.training.batch_size / config.training.micro_batch_size.value(),
                          at::TensorOptions().device(runtime.device).dtype(runtime.dtype));
  const auto one_step = [&](std::int64_t step) {
    return 1000 * seconds_of(runtime.device, [&] { trainer.step(step, windows); });
  };
  const auto one_product = [&] {
    const at::NoGradGuard no_grad;
    return 1000 * seconds_of(runtime.device, [&] { products.run(); });
  };
  for (std::int64_t warm_up = 0; warm_up < 3; ++warm_up) one_step(warm_up);
  one_product();
  Times times;
  constexpr std::int64_t block = 5;
  for (std::int64_t step = 0; step < flags.steps; step += block) {
    for (std::int64_t i = 0; i < std::min(block, flags.steps - step); ++i) times.steps.push_back(one_step(step + i));
    for (std::int64_t i = 0; i < 2; ++i) times.products.push_back(one_product());
  }
  times.peak_flops = matrix_product_peak(at::TensorOptions().device(runtime.device).dtype(runtime.dtype));
  const OperationTimes observed;
  const std::int64_t observed_steps = std::min<std::int64_t>(10, flags.steps);
  for (std::int64_t i = 0; i < observed_steps; ++i) one_step(flags.steps + i);
  const double least = 0.0005 * quantile(times.steps, 0.5);  // what takes less is not worth a line
  for (const auto& [name, seconds] : observed.seconds()) {
    const double milliseconds = 1000 * seconds / static_cast<double>(observed_steps);
    if (milliseconds > least) times.operations[name] = milliseconds;
  }
  return times;
}

int bench(int argc, char** argv) {
  CLI::App app("Times training steps of a configuration on random tokens.", "bench-step");
  Flags flags;
  app.add_option("CONFIG", flags.config, "a YAML configuration")->required();
  add_set_flag(app, flags.overrides, "override one setting");
  app.add_option("--steps", flags.steps, "how many steps to time (default 50)")->check(CLI::PositiveNumber);
  app.add_option("--vocab-size", flags.vocab_size, "vocabulary (default: what the configuration implies, char: 65)");
  app.add_flag("--json", flags.json, "print one JSON object");
  if (!parse_flags(app, argc, argv)) return 0;

  reuse_cpu_memory();  // as train() does
  Config config = load_config(flags.config, flags.overrides);
  const Runtime runtime = resolve_runtime(config.runtime);
  const GptShape shape =
      shape_from(config.model, flags.vocab_size > 0 ? flags.vocab_size : doctor::expected_vocabulary(config.data));
  config.training.micro_batch_size =
      fitting_micro_batch_size(config, shape, runtime, memory_limit(config.runtime, runtime.device));
  const Times times = measure(config, flags, runtime, shape, *config.training.micro_batch_size * shape.block_size);

  const double median = quantile(times.steps, 0.5);
  const double tokens = static_cast<double>(config.training.batch_size * shape.block_size);
  const std::int64_t parameters = ParameterLayout(gpt_parameters(shape)).parameter_count();
  const double flops = flops_per_token(shape) * tokens;
  const nlohmann::ordered_json result = {{"device", runtime.device_name()},
                                         {"dtype", runtime.dtype_name()},
                                         {"kernels", word_of(runtime.kernels)},
                                         {"parameters", parameters},
                                         {"vocabulary", shape.vocab_size},
                                         {"steps", times.steps.size()},
                                         {"ms_median", median},
                                         {"ms_p10", quantile(times.steps, 0.1)},
                                         {"ms_p90", quantile(times.steps, 0.9)},
                                         {"tokens_per_second", tokens / median * 1000},
                                         {"gemm_ms", quantile(times.products, 0.5)},
                                         {"peak_flops_per_second", times.peak_flops},
                                         {"share_of_peak", flops / (median / 1000) / times.peak_flops},
                                         {"held_bytes", held_bytes(runtime.device)},
                                         {"peak_resident_bytes", peak_resident_bytes()},
                                         {"operations_ms", times.operations}};
  print_results(result, flags.json);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] { return bench(argc, argv); });
}
