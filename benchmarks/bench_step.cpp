// bench-step CONFIG: how long a training step takes, beside the time of its matrix products alone in the same run, and
// how much memory it takes.
// Tokens are random: no data is needed, and the time does not depend on them.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "config/config.h"
#include "doctor/forecast.h"
#include "operation_times.h"
#include "program.h"
#include "results.h"
#include "runtime/cpu_memory.h"
#include "runtime/device.h"
#include "runtime/parallel.h"
#include "runtime/timing.h"
#include "train/resources.h"
#include "train/trainer.h"

namespace {

using namespace inkling;

struct Flags {
  std::string config;
  std::vector<std::string> overrides, against;
  std::int64_t steps = 50;
  std::uint64_t vocab_size = 0;
  bool json = false, memory = false;
};

constexpr int warm_up_steps = 3;  // by then a step is recorded, and holds as much memory as it ever will

// The products of a micro-batch's linear layers and head: forward, gradient of the input, gradient of the weight. Each
// layer has inputs and outputs of its own, as in a step, up to a limit of memory; beyond it layers take turns with
// them, which no cache is large enough to notice.
class MatrixProducts {
 public:
  MatrixProducts(const GptShape& shape, std::int64_t rows, const at::TensorOptions& options) {
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
    for (Product& p : products_) at::mm_out(p.y, p.x, p.w);
    for (Product& p : products_) {
      at::mm_out(p.dx, p.y, p.w.t());
      p.dw.addmm_(p.x.t(), p.y);
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
};

// Those of a whole step, shared out as the step is.
class ProductsOfAStep {
 public:
  ProductsOfAStep(const GptShape& shape, const Runtime& runtime, const Config& config)
      : micro_batches_(config.training.batch_size / config.training.micro_batch_size.value()) {
    if (runtime.split == WorkSplit::batch) workers_.emplace(runtime.threads);
    const auto options = at::TensorOptions().device(runtime.device).dtype(runtime.dtype);
    const std::int64_t rows = config.training.micro_batch_size.value() * shape.block_size;
    const int at_once = workers_ ? workers_->count() : 1;
    for (int worker = 0; worker < at_once; ++worker) products_.emplace_back(shape, rows, options);
  }

  void run() {
    const at::NoGradGuard no_grad;
    for_each(workers_, micro_batches_,
             [&](std::int64_t, int worker) { products_[static_cast<std::size_t>(worker)].run(); });
  }

 private:
  std::int64_t micro_batches_;
  std::optional<Workers> workers_;
  std::vector<MatrixProducts> products_;
};

// Steps of one way to compute a configuration.
class Side {
 public:
  Side(const std::string& path, const std::vector<std::string>& overrides, std::uint64_t vocab_size)
      : config_(load_config(path, overrides)), runtime_(resolve_runtime(config_.runtime)) {
    shape_ = shape_from(config_.model, vocab_size > 0 ? vocab_size : doctor::expected_vocabulary(config_.data));
    const BatchSplit settled = split_batch(config_, shape_, runtime_, memory_limit(config_.runtime, runtime_.device));
    config_.training.micro_batch_size = settled.micro_batch_size;
    runtime_.split = settled.split;
    // Kept apart, each document begins with token 0; packed into windows they are not, which takes as long.
    const auto separator = config_.data.keeps_documents_apart() ? std::optional<Token>(0) : std::nullopt;
    trainer_.emplace(config_, shape_, runtime_, separator);
    initialize(trainer_->arena(), shape_, config_.training.seed, config_.model.initialization);
    const auto block = static_cast<std::uint64_t>(shape_.block_size);
    tokens_.emplace(doctor::random_tokens(static_cast<std::uint64_t>(shape_.vocab_size), 200'000 + 100 * block));
    windows_.emplace(*tokens_, WindowSettings{.order = WindowKind::random, .block_size = block});
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  double time_step() {  // ms
    return 1000 * seconds_of(runtime_.device, [&] { trainer_->step(step_++, *windows_); });
  }

  const Config& config() const { return config_; }
  const Runtime& runtime() const { return runtime_; }
  const GptShape& shape() const { return shape_; }
  std::uint64_t expected_bytes() const {
    return training_memory(config_, shape_, runtime_, config_.training.micro_batch_size.value()).total();
  }

 private:
  Config config_;
  Runtime runtime_;
  GptShape shape_;
  std::optional<TokenSequence> tokens_;
  std::optional<TrainingWindows> windows_;
  std::optional<Trainer> trainer_;
  std::int64_t step_ = 0;
};

struct Times {
  std::vector<double> steps, others, products;  // ms; others: of the side that is compared
  std::map<std::string, double> operations;     // ms of a step, of a few more steps
  double peak_flops = 0;                        // per second, of a large product
};

// Steps and products take turns in blocks, so that all see the same minutes of a shared machine. What a thread still
// does of the block before is over behind the first, which is not counted.
Times measure(const Flags& flags, Side& side, Side* against) {
  ProductsOfAStep products(side.shape(), side.runtime(), side.config());
  const auto one_product = [&] { return 1000 * seconds_of(side.runtime().device, [&] { products.run(); }); };
  constexpr std::int64_t block = 5;
  const auto time_block = [](const auto& once, std::int64_t count, std::vector<double>& times) {
    once();
    for (std::int64_t i = 0; i < count; ++i) times.push_back(once());
  };
  for (int step = 0; against != nullptr && step < warm_up_steps; ++step) against->time_step();
  Times times;
  for (std::int64_t step = 0; step < flags.steps; step += block) {
    const std::int64_t count = std::min(block, flags.steps - step);
    time_block([&] { return side.time_step(); }, count, times.steps);
    if (against != nullptr) time_block([&] { return against->time_step(); }, count, times.others);
    time_block(one_product, 2, times.products);
  }
  times.peak_flops = matrix_product_peak(at::TensorOptions().device(side.runtime().device).dtype(side.runtime().dtype));
  const OperationTimes observed;
  const std::int64_t observed_steps = std::min<std::int64_t>(10, flags.steps);
  for (std::int64_t i = 0; i < observed_steps; ++i) side.time_step();
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
  app.add_option("--against", flags.against, "also time it with this setting changed, in turns: SECTION.KEY=VALUE");
  app.add_option("--steps", flags.steps, "how many steps to time (default 50)")->check(CLI::PositiveNumber);
  app.add_option("--vocab-size", flags.vocab_size, "vocabulary (default: what the configuration implies, char: 65)");
  app.add_flag("--memory", flags.memory, "print only what a step holds, and what was expected");
  app.add_flag("--json", flags.json, "print one JSON object");
  if (!parse_flags(app, argc, argv)) return 0;

  reuse_cpu_memory();  // as train() does
  Side side(flags.config, flags.overrides, flags.vocab_size);
  for (int step = 0; step < warm_up_steps; ++step) side.time_step();
  const std::uint64_t step_bytes = held_bytes(side.runtime().device);
  if (flags.memory) {
    print_results({{"kernels", word_of(side.runtime().kernels)},
                   {"micro_batch_size", *side.config().training.micro_batch_size},
                   {"expected_bytes", side.expected_bytes()},
                   {"held_bytes", step_bytes}},
                  flags.json);
    return 0;
  }
  std::optional<Side> against;
  if (!flags.against.empty()) {
    std::vector<std::string> overrides = flags.overrides;
    overrides.insert(overrides.end(), flags.against.begin(), flags.against.end());
    against.emplace(flags.config, overrides, flags.vocab_size);
  }
  const Times times = measure(flags, side, against ? &*against : nullptr);
  const auto& [config, runtime, shape] = std::tie(side.config(), side.runtime(), side.shape());

  const double median = quantile(times.steps, 0.5);
  const double tokens = static_cast<double>(config.training.batch_size * shape.block_size);
  const std::int64_t parameters = ParameterLayout(gpt_parameters(shape)).parameter_count();
  const double flops = flops_per_token(shape) * tokens;
  nlohmann::ordered_json result = {{"device", runtime.device_name()},
                                   {"dtype", runtime.dtype_name()},
                                   {"kernels", word_of(runtime.kernels)},
                                   {"split", word_of(runtime.split)},
                                   {"micro_batch_size", *config.training.micro_batch_size},
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
                                   {"expected_bytes", side.expected_bytes()},
                                   {"held_bytes", step_bytes},
                                   {"peak_resident_bytes", peak_resident_bytes()},
                                   {"operations_ms", times.operations}};
  if (against) {
    result["against_ms_median"] = quantile(times.others, 0.5);
    result["ratio"] = median / quantile(times.others, 0.5);
  }
  print_results(result, flags.json);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] { return bench(argc, argv); });
}
