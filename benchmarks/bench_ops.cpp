// bench-ops CONFIG: each operation of a training step, forward and backward: our fused form beside the composition of
// LibTorch's operations, in turns, and beside the least time that the machine's memory and arithmetic would take.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "backend/choose.h"
#include "backend/heads.h"
#include "config/config.h"
#include "model/model.h"
#include "model/operations.h"
#include "optim/optimizer.h"
#include "program.h"
#include "results.h"
#include "runtime/cpu_memory.h"
#include "runtime/timing.h"

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
  std::function<at::Tensor()> fused, composed;  // undefined result: there is no backward pass
  double flops = 0;                             // of matrix products, forward and backward
  double elements = 0;                          // read or written at least, forward and backward
};

at::Tensor composed_linear(const at::Tensor& x, const LinearWeights& weights) {
  const at::Tensor product = at::matmul(x, weights.weight.value);
  return weights.bias.defined() ? product + weights.bias.value : product;
}

// One layer of the model, and what goes through it: in an arena of its own for each form, whose gradients are of the
// form's kind.
class Operations {
 public:
  Operations(const Config& config, const GptShape& shape, const Runtime& runtime)
      : shape_(one_layer(shape)),
        fused_(config, shape_, runtime, Kernels::fused),
        composed_(config, shape_, runtime, Kernels::reference) {
    const auto options = at::TensorOptions().device(runtime.device).dtype(runtime.dtype);
    const std::int64_t batch = config.training.micro_batch_size.value(), time = shape.block_size;
    x_ = at::randn({batch, time, shape.n_embd}, options).set_requires_grad(true);
    branch_ = at::randn_like(x_).set_requires_grad(true);
    qkv_ = at::randn({batch, time, shape.attention().packed()}, options).set_requires_grad(true);
    const auto whole = options.dtype(at::kLong);
    tokens_ = at::randint(shape.vocab_size, {batch, time}, whole);
    targets_ = at::randint(shape.vocab_size, {batch, time}, whole);
    key_ = at::zeros({2}, whole);
  }

  std::vector<Operation> all() {
    const auto rows = static_cast<double>(tokens_.numel()), c = static_cast<double>(shape_.n_embd);
    const auto t = static_cast<double>(shape_.block_size), v = static_cast<double>(shape_.vocab_size);
    const auto n = static_cast<double>(fused_.arena->size());
    const auto packed = static_cast<double>(shape_.attention().packed()),
               heads = static_cast<double>(shape_.attention().queries());
    const auto widened = static_cast<double>(shape_.widened()), inner = static_cast<double>(shape_.inner());
    const GptWeights &ours = fused_.weights, &theirs = composed_.weights;
    const BlockWeights &block = ours.blocks[0], &other = theirs.blocks[0];
    const at::Tensor &table = theirs.embedding.tokens.value, &positions = theirs.embedding.positions.value;
    return {
        {"embedding", [&] { return embedding(tokens_, ours.embedding, pass()); },
         [&] {
           const at::Tensor x = at::embedding(table, tokens_);
           return positions.defined() ? x + positions.narrow(0, 0, tokens_.size(1)) : x;
         },
         0, 5 * rows * c},
        {"add_norm", [&] { return add_norm(x_, branch_, block.ln_1, pass()).normed; },
         [&] {
           const auto& [weight, bias, form] = other.ln_1;
           if (form.kind == NormKind::rmsnorm) {
             return at::rms_norm(x_ + branch_, {shape_.n_embd}, weight.value, form.epsilon);
           }
           return at::layer_norm(x_ + branch_, {shape_.n_embd}, weight.value, bias.value, form.epsilon);
         },
         0, 7 * rows * c},
        {"linear (c_attn)", [&] { return linear(x_, block.c_attn, pass()); },
         [&] { return composed_linear(x_, other.c_attn); }, 6 * rows * c * packed,
         2 * rows * (c + packed) + 3 * c * packed},
        {"attention",
         [&] {
           Pass own = pass();
           return attention(qkv_, shape_.attention(), own);
         },
         [&] {
           const auto [queries, keys, values] = split_heads(qkv_, shape_.attention());
           return at::scaled_dot_product_attention(queries, keys, values, {}, 0.0, true, {}, true /* grouped heads */);
         },
         7 * rows * t * heads, 3 * rows * (packed + heads)},
        {"mlp", [&] { return mlp(x_, block.mlp, pass()); },
         [&] {
           const at::Tensor wide = composed_linear(x_, other.mlp.c_fc);
           return composed_linear(activated(wide, shape_.activation), other.mlp.c_proj);
         },
         6 * rows * c * (widened + inner), 4 * rows * c + 3 * (rows + c) * (widened + inner)},
        {"head_loss", [&] { return head_loss(x_, ours.head, targets_, shape_.logit_softcap, pass()); },
         [&] {
           const at::Tensor logits = at::matmul(x_.flatten(0, 1), theirs.head.value.t()).to(at::kFloat);
           return at::cross_entropy_loss(logits, targets_.flatten());
         },
         6 * rows * c * v, 3 * rows * c + 4 * c * v},
        {"dropout of 0.1",
         [&] {
           Pass own = pass();
           own.training.dropout = 0.1;
           return dropout(x_, own);
         },
         [&] { return at::dropout(x_, 0.1, true); }, 0, 4 * rows * c},
        {"adamw (one layer, tables)", [&] { return update(fused_); }, [&] { return update(composed_); }, 0, 8 * n},
    };
  }

 private:
  struct Form {
    Form(const Config& config, const GptShape& shape, Runtime runtime, Kernels kernels)
        : arena(make(shape, runtime, kernels)),
          weights(shape, *arena),
          backend(choose_backend(with(runtime, kernels))),
          optimizer(*arena, config.optimizer, backend) {
      optimizer.set_learning_rate(1e-6);
    }
    static Runtime with(Runtime runtime, Kernels kernels) {
      runtime.kernels = kernels;
      return runtime;
    }
    static std::unique_ptr<ParameterArena> make(const GptShape& shape, const Runtime& runtime, Kernels kernels) {
      auto made = make_arena(shape, with(runtime, kernels), Use::training);
      initialize(*made, shape, 1);
      return made;
    }

    std::unique_ptr<ParameterArena> arena;
    GptWeights weights;
    const Backend& backend;
    Optimizer optimizer;
  };

  static at::Tensor activated(const at::Tensor& x, Activation activation) {
    if (is_gated(activation)) {
      const std::vector<at::Tensor> halves = x.chunk(2, -1);
      return (activation == Activation::swiglu ? at::silu(halves[0]) : at::gelu(halves[0])) * halves[1];
    }
    if (activation == Activation::relu) return at::relu(x);
    if (activation == Activation::relu_squared) return at::relu(x).square();
    return at::gelu(x, activation == Activation::gelu_tanh ? "tanh" : "none");
  }
  static GptShape one_layer(GptShape shape) {
    shape.n_layer = 1;
    return shape;
  }
  Pass pass() const { return {.backend = fused_.backend, .training = {.dropout_key = key_}}; }
  static at::Tensor update(Form& form) {
    form.optimizer.update();
    return {};
  }

  GptShape shape_;
  Form fused_, composed_;
  at::Tensor x_, branch_, qkv_, tokens_, targets_, key_;
};

double seconds_of_one(const std::function<at::Tensor()>& forward, at::Device device) {
  const at::NoGradGuard outside;
  return seconds_of(device, [&] {
    const at::AutoGradMode with_gradient(true);
    const at::Tensor out = forward();
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
  Operations operations(config, shape, runtime);
  const auto options = at::TensorOptions().device(runtime.device).dtype(runtime.dtype);

  nlohmann::ordered_json results = {{"device", runtime.device_name()},
                                    {"dtype", runtime.dtype_name()},
                                    {"memory_bytes_per_second", 0.0},
                                    {"peak_flops_per_second", matrix_product_peak(options)}};
  MemoryReads reads(runtime.device);
  std::vector<double> bandwidths;
  std::vector<nlohmann::ordered_json> rows;
  for (const Operation& operation : operations.all()) {
    std::vector<double> fused_seconds, composed_seconds;
    for (std::int64_t round = -2; round < flags.rounds; ++round) {
      const double one = seconds_of_one(operation.fused, runtime.device);
      const double other = seconds_of_one(operation.composed, runtime.device);
      if (round < 0) continue;  // to warm up
      fused_seconds.push_back(one);
      composed_seconds.push_back(other);
    }
    bandwidths.push_back(reads.bytes_per_second());
    rows.push_back({{"name", operation.name},
                    {"fused_ms", 1000 * quantile(fused_seconds, 0.5)},
                    {"fused_p90_ms", 1000 * quantile(fused_seconds, 0.9)},
                    {"composed_ms", 1000 * quantile(composed_seconds, 0.5)},
                    {"flops", operation.flops},
                    {"bytes", operation.elements * static_cast<double>(c10::elementSize(runtime.dtype))}});
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
    const double one = row["fused_ms"], other = row["composed_ms"], limit = row["limit_ms"];
    std::printf("| %s | %.3f (%.3f) | %.3f | %.2f | %.3f | %.0f %% |\n", row["name"].get<std::string>().c_str(), one,
                row["fused_p90_ms"].get<double>(), other, one / other, limit, 100 * limit / one);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return inkling::run_program([&] { return bench(argc, argv); });
}
