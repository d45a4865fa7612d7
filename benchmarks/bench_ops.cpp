// bench-ops CONFIG: each operation of a training step, forward and backward: our fused form beside the composition of
// LibTorch's operations, in turns, and beside the least time that the machine's memory and arithmetic would take.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/zeros.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "config/config.h"
#include "limits.h"
#include "model/device.h"
#include "model/gpt.h"
#include "ops/cpu_memory.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "optim/adamw.h"
#include "program.h"
#include "results.h"
#include "train/trainer.h"

namespace {

using namespace inkling;

struct Flags {
  std::string config;
  std::vector<std::string> overrides;
  std::int64_t rounds = 15;
  std::uint64_t vocab_size = 0;
  bool json = false;
};

struct Operation {
  std::string name;
  std::function<at::Tensor(Context&)> forward;  // undefined result: there is no backward pass
  double flops = 0;                             // of matrix products, forward and backward
  double elements = 0;                          // read or written at least, forward and backward
};

// One layer of the model, and what goes through it.
class Operations {
 public:
  Operations(const Config& config, const GptShape& shape, const Runtime& runtime, Kernels kernels)
      : shape_(one_layer(shape)),
        arena_(gpt_parameters(shape_), runtime.device, runtime.dtype,
               kernels == Kernels::fused ? Gradients::in_float32 : Gradients::as_weights),
        optimizer_(arena_, config.optimizer, kernels) {
    initialize(arena_, shape_, 1);
    const auto options = at::TensorOptions().device(runtime.device).dtype(runtime.dtype);
    const std::int64_t batch = *config.training.micro_batch_size, time = shape.block_size;
    x_ = at::randn({batch, time, shape.n_embd}, options).set_requires_grad(true);
    branch_ = at::randn_like(x_).set_requires_grad(true);
    qkv_ = at::randn({batch, time, 3 * shape.n_embd}, options).set_requires_grad(true);
    const auto whole = options.dtype(at::kLong);
    tokens_ = at::randint(shape.vocab_size, {batch, time}, whole);
    targets_ = at::randint(shape.vocab_size, {batch, time}, whole);
  }

  std::vector<Operation> all() {
    const auto rows = static_cast<double>(tokens_.numel()), c = static_cast<double>(shape_.n_embd);
    const auto t = static_cast<double>(shape_.block_size), v = static_cast<double>(shape_.vocab_size);
    const auto n = static_cast<double>(arena_.size());
    const EmbeddingWeights tables = {arena_.weight("wte.weight"), arena_.weight("wpe.weight")};
    const NormWeights norm = {arena_.weight("h.0.ln_1.weight"), bias("h.0.ln_1")};
    const LinearWeights c_attn = linear_weights("h.0.attn.c_attn");
    const MlpWeights wide = {linear_weights("h.0.mlp.c_fc"), linear_weights("h.0.mlp.c_proj")};
    return {
        {"embedding", [=, this](Context& pass) { return embedding(tokens_, tables, pass); }, 0, 5 * rows * c},
        {"add_layer_norm", [=, this](Context& pass) { return add_layer_norm(x_, branch_, norm, pass).second; }, 0,
         7 * rows * c},
        {"linear (c_attn)", [=, this](Context& pass) { return linear(x_, c_attn, pass); }, 18 * rows * c * c,
         8 * rows * c + 9 * c * c},
        {"causal_attention", [=, this](Context& pass) { return causal_attention(qkv_, shape_.n_head, pass); },
         7 * rows * t * c, 12 * rows * c},
        {"mlp", [=, this](Context& pass) { return mlp(x_, wide, shape_.gelu, pass); }, 48 * rows * c * c,
         20 * rows * c + 24 * c * c},
        {"head_cross_entropy",
         [=, this](Context& pass) { return head_cross_entropy(x_, tables.tokens, targets_, pass); }, 6 * rows * c * v,
         3 * rows * c + 4 * c * v},
        {"dropout of 0.1",
         [=, this](Context& pass) {
           pass.dropout = 0.1;
           return dropout(x_, pass);
         },
         0, 4 * rows * c},
        {"adamw (one layer, tables)",
         [this](Context&) {
           optimizer_.step(1e-6);
           return at::Tensor();
         },
         0, 8 * n},
    };
  }

 private:
  static GptShape one_layer(GptShape shape) {
    shape.n_layer = 1;
    return shape;
  }
  Weight bias(const std::string& name) { return shape_.bias ? arena_.weight(name + ".bias") : Weight{}; }
  LinearWeights linear_weights(const std::string& name) { return {arena_.weight(name + ".weight"), bias(name)}; }

  GptShape shape_;
  ParameterArena arena_;
  AdamW optimizer_;
  at::Tensor x_, branch_, qkv_, tokens_, targets_;
};

double seconds_of_one(const Operation& operation, Kernels kernels, at::Device device) {
  Context pass{.kernels = kernels,
               .device_dropout_key = at::zeros({1}, at::TensorOptions().device(device).dtype(at::kLong))};
  at::Tensor upstream;
  const at::NoGradGuard outside;
  return seconds_of(device, [&] {
    const at::AutoGradMode with_gradient(true);
    const at::Tensor out = operation.forward(pass);
    if (!out.defined()) return;
    out.backward(out.dim() == 0 ? at::Tensor() : out.detach());  // any gradient of the same shape takes as long
  });
}

int bench(int argc, char** argv) {
  CLI::App app("Times each operation of a training step, fused and composed of LibTorch's, forward and backward.",
               "bench-ops");
  Flags flags;
  app.add_option("CONFIG", flags.config, "a YAML configuration")->required();
  add_set_flag(app, flags.overrides, "override one setting");
  app.add_option("--rounds", flags.rounds, "how often to time each (default 15)")->check(CLI::PositiveNumber);
  app.add_option("--vocab-size", flags.vocab_size, "vocabulary (default 65)");
  app.add_flag("--json", flags.json, "print one JSON object");
  if (!parse_flags(app, argc, argv)) return 0;

  reuse_cpu_memory();  // as train() does
  Config config = load_config(flags.config, flags.overrides);
  if (!config.training.micro_batch_size) config.training.micro_batch_size = config.training.batch_size;
  const Runtime runtime = resolve_runtime(config.runtime);
  const GptShape shape = shape_from(config.model, flags.vocab_size > 0 ? flags.vocab_size : 65);
  Operations ours(config, shape, runtime, Kernels::fused), theirs(config, shape, runtime, Kernels::reference);
  const auto options = at::TensorOptions().device(runtime.device).dtype(runtime.dtype);

  nlohmann::ordered_json results = {{"device", runtime.device_name()},
                                    {"dtype", runtime.dtype == at::kFloat ? "float32" : "bfloat16"},
                                    {"memory_bytes_per_second", 0.0},
                                    {"peak_flops_per_second", matrix_product_peak(options)}};
  MemoryReads reads(runtime.device);
  std::vector<double> bandwidths;
  std::vector<nlohmann::ordered_json> rows;
  const std::vector<Operation> fused = ours.all(), composed = theirs.all();
  for (std::size_t i = 0; i < fused.size(); ++i) {
    std::vector<double> fused_seconds, aten_seconds;
    for (std::int64_t round = -2; round < flags.rounds; ++round) {
      const double one = seconds_of_one(fused[i], Kernels::fused, runtime.device);
      const double other = seconds_of_one(composed[i], Kernels::reference, runtime.device);
      if (round < 0) continue;  // to warm up
      fused_seconds.push_back(one);
      aten_seconds.push_back(other);
    }
    bandwidths.push_back(reads.bytes_per_second());
    rows.push_back({{"name", fused[i].name},
                    {"fused_ms", 1000 * quantile(fused_seconds, 0.5)},
                    {"fused_p90_ms", 1000 * quantile(fused_seconds, 0.9)},
                    {"aten_ms", 1000 * quantile(aten_seconds, 0.5)},
                    {"flops", fused[i].flops},
                    {"bytes", fused[i].elements * static_cast<double>(c10::elementSize(runtime.dtype))}});
  }
  const double bandwidth = quantile(bandwidths, 0.5);
  results["memory_bytes_per_second"] = bandwidth;
  for (auto& row : rows) {
    const double arithmetic = row["flops"].get<double>() / results["peak_flops_per_second"].get<double>();
    const double memory = row["bytes"].get<double>() / bandwidth;
    row["limit_ms"] = 1000 * std::max(arithmetic, memory);
  }
  results["operations"] = rows;
  if (flags.json) {
    print_results(results, true);
    return 0;
  }
  std::printf("%s, %.1f GB/s, %.1f GFLOP/s\n\n", runtime.device_name().c_str(), bandwidth / 1e9,
              results["peak_flops_per_second"].get<double>() / 1e9);
  std::printf(
      "| operation, forward and backward | fused, ms (p90) | LibTorch's, ms | ratio | limit, ms | of the limit |\n"
      "|---|---|---|---|---|---|\n");
  for (const auto& row : rows) {
    const double one = row["fused_ms"], other = row["aten_ms"], limit = row["limit_ms"];
    std::printf("| %s | %.3f (%.3f) | %.3f | %.2f | %.3f | %.0f %% |\n", row["name"].get<std::string>().c_str(), one,
                row["fused_p90_ms"].get<double>(), other, one / other, limit, 100 * limit / one);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] { return bench(argc, argv); });
}
