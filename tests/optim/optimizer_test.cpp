#include "optim/optimizer.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "backend/choose.h"
#include "tests/cuda_first.h"
#include "tests/model/small_model.h"
#include "tests/needs_gpu.h"
#include "tests/oracle/emulated_library.h"
#include "tests/oracle/rounding.h"
#include "tests/oracle/tensors.h"

namespace inkling::test {
namespace {

const OptimizerConfig settings = {
    .learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .grad_clip = 0.0};

// A matrix that decays and a vector that does not, large enough for several threads.
ParameterArena make_arena(at::Device device) {
  at::set_num_threads(3);
  ParameterArena arena({{"matrix", {200, 301}, ParameterGroup::matrix}, {"vector", {77}, ParameterGroup::vector}},
                       device, at::kFloat, Gradients::as_weights);
  arena.values().copy_(oracle::normal(1, {arena.size()}));
  return arena;
}

void set_gradients(ParameterArena& arena, std::uint64_t step, double scale = 1.0) {
  const at::Tensor values = oracle::normal(100 + step, {arena.size()}, scale);
  for (const Parameter& one : arena.parameters()) one.part_of(arena.gradients()).copy_(one.part_of(values));
}

bool is_in(const ParameterRange& range, std::size_t element) {
  const auto i = static_cast<std::int64_t>(element);
  return range.begin <= i && i < range.end;
}

// One update; returns the gradient's global norm before clipping.
double step_of(Optimizer& optimizer, double learning_rate) {
  optimizer.set_learning_rate(learning_rate);
  optimizer.update();
  return std::sqrt(optimizer.norm_squared().item<double>());
}

// Returns a copy of one of the states, in the arena's layout.
at::Tensor moment(const char* name, const Optimizer& optimizer, const ParameterArena& arena) {
  const at::Tensor flat = at::zeros_like(arena.values());
  for (const OptimizerState& state : optimizer.states()) {
    if (state.name == name) arena.parameter(state.parameter).part_of(flat).copy_(state.value);
  }
  return flat;
}

// Loshchilov, Hutter 2019, algorithm 2, element by element in double precision.
struct PlainAdamW {
  std::vector<double> value, moment1, moment2;

  void step(const at::Tensor& gradients, double clip, int t, const ParameterRange& decayed) {
    const at::Tensor g = gradients.to(at::kCPU, at::kDouble).mul(clip);
    for (std::size_t i = 0; i < value.size(); ++i) {
      const double gradient = g.const_data_ptr<double>()[i];
      moment1[i] = settings.beta1 * moment1[i] + (1.0 - settings.beta1) * gradient;
      moment2[i] = settings.beta2 * moment2[i] + (1.0 - settings.beta2) * gradient * gradient;
      const double m = moment1[i] / (1.0 - std::pow(settings.beta1, t));
      const double v = moment2[i] / (1.0 - std::pow(settings.beta2, t));
      const double decay = is_in(decayed, i) ? settings.weight_decay : 0.0;
      value[i] -= settings.learning_rate * (m / (std::sqrt(v) + settings.epsilon) + decay * value[i]);
    }
  }
};

double largest_difference(const at::Tensor& actual, const std::vector<double>& expected) {
  double largest = 0.0;
  const at::Tensor values = actual.to(at::kCPU, at::kDouble);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(values.const_data_ptr<double>()[i] - expected[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

struct Form {
  const char* name;
  Kernels kernels;
  enum { on_cpu, on_emulated_gpu, on_gpu } where;
};

class AdamWForm : public testing::TestWithParam<Form> {
 protected:
  void SetUp() override {
    if (GetParam().where == Form::on_gpu) INKLING_NEEDS_GPU(why_no_cuda());
    if (GetParam().where == Form::on_emulated_gpu) gpu_.emplace();
  }
  const Backend& backend() const { return choose_backend({.device = device(), .kernels = GetParam().kernels}); }
  at::Device device() const { return GetParam().where == Form::on_gpu ? at::Device("cuda:0") : at::Device(at::kCPU); }
  ParameterArena make_arena() const { return test::make_arena(device()); }

 private:
  std::optional<oracle::OtherBackend> gpu_;
};

std::string name_of(const testing::TestParamInfo<Form>& form) { return form.param.name; }
INSTANTIATE_TEST_SUITE_P(Cpu, AdamWForm,
                         testing::Values(Form{"fused", Kernels::fused, Form::on_cpu},
                                         Form{"reference", Kernels::reference, Form::on_cpu}),
                         name_of);
// The reference's is queued there: it reads no number of the device.
INSTANTIATE_TEST_SUITE_P(Emulated, AdamWForm,
                         testing::Values(Form{"fused", Kernels::fused, Form::on_emulated_gpu},
                                         Form{"reference", Kernels::reference, Form::on_emulated_gpu}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Cuda, AdamWForm,
                         testing::Values(Form{"fused", Kernels::fused, Form::on_gpu},
                                         Form{"reference", Kernels::reference, Form::on_gpu}),
                         name_of);

TEST_P(AdamWForm, IsThePaperInDoublePrecisionAndDecaysMatricesOnly) {
  ParameterArena arena = make_arena();
  Optimizer optimizer(arena, settings, backend());
  const auto size = static_cast<std::size_t>(arena.size());
  PlainAdamW plain{{}, std::vector<double>(size, 0.0), std::vector<double>(size, 0.0)};
  const at::Tensor values = arena.values().to(at::kCPU, at::kDouble);
  plain.value.assign(values.const_data_ptr<double>(), values.const_data_ptr<double>() + arena.size());
  for (int step = 1; step <= 5; ++step) {
    set_gradients(arena, static_cast<std::uint64_t>(step));
    step_of(optimizer, settings.learning_rate);
    plain.step(arena.gradients(), 1.0, step, arena.range(ParameterGroup::matrix));
  }
  EXPECT_EQ(optimizer.steps(), 5);
  // In a step a moment goes through four roundings, and 1 - beta magnifies what was rounded away from beta. A value
  // goes through two; its change, a hundredth of it, is as right as the moments.
  const auto allowed = [&](const std::vector<double>& expected, double beta, int roundings) {
    double largest = 0.0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    return largest * (oracle::rounding_error(5 * roundings) + oracle::float32_roundoff / (1.0 - beta));
  };
  EXPECT_LT(largest_difference(moment("moment1", optimizer, arena), plain.moment1),
            allowed(plain.moment1, settings.beta1, 4));
  EXPECT_LT(largest_difference(moment("moment2", optimizer, arena), plain.moment2),
            allowed(plain.moment2, settings.beta2, 4));
  EXPECT_LT(largest_difference(arena.values(), plain.value), allowed(plain.value, 0.0, 2));
}

TEST_P(AdamWForm, IsLibTorchsAdamW) {
  ParameterArena arena = make_arena();
  Optimizer optimizer(arena, settings, backend());
  std::vector<at::Tensor> theirs;
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const Parameter& parameter : arena.parameters()) {
    theirs.push_back(arena.master(parameter.spec.name).clone().set_requires_grad(true));
    auto options = std::make_unique<torch::optim::AdamWOptions>(settings.learning_rate);
    options->betas({settings.beta1, settings.beta2}).eps(settings.epsilon);
    options->weight_decay(parameter.spec.group == ParameterGroup::matrix ? settings.weight_decay : 0.0);
    groups.emplace_back(std::vector<at::Tensor>{theirs.back()}, std::move(options));
  }
  torch::optim::AdamW reference(groups, torch::optim::AdamWOptions(settings.learning_rate));
  for (std::uint64_t step = 1; step <= 5; ++step) {
    set_gradients(arena, step);
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      const Parameter& parameter = arena.parameters()[i];
      theirs[i].mutable_grad() =
          arena.gradients().narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape).clone();
    }
    step_of(optimizer, settings.learning_rate);
    reference.step();
  }
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    EXPECT_LT(oracle::error(arena.master(arena.parameters()[i].spec.name), theirs[i]),
              2 * oracle::rounding_error(5 * 2));  // two roundings a step on both sides
  }
}

// Every group under a rate of its own moves as all groups would under that rate.
TEST_P(AdamWForm, EachGroupFollowsTheScheduleUpToAPeakOfItsOwn) {
  const std::vector<ParameterSpec> specs = {{"table", {40, 8}, ParameterGroup::embedding},
                                            {"matrix", {8, 24}, ParameterGroup::matrix},
                                            {"head", {40, 8}, ParameterGroup::head},
                                            {"vector", {24}, ParameterGroup::vector}};
  const auto updated = [&](const OptimizerConfig& config, double learning_rate) {
    ParameterArena arena(specs, device(), at::kFloat, Gradients::as_weights);
    arena.values().copy_(oracle::normal(1, {arena.size()}));
    Optimizer optimizer(arena, config, backend());
    for (std::uint64_t step = 1; step <= 2; ++step) {
      set_gradients(arena, step);
      step_of(optimizer, learning_rate);
    }
    return arena;
  };
  OptimizerConfig apart = settings;
  apart.embedding_learning_rate = 8 * settings.learning_rate;  // powers of two, so that no rate is rounded
  apart.head_learning_rate = settings.learning_rate / 2;
  apart.vector_learning_rate = 4 * settings.learning_rate;
  const double now = settings.learning_rate / 4;  // what the schedule says
  const ParameterArena arena = updated(apart, now);
  const std::map<std::string, double> rates = {
      {"table", 8 * now}, {"matrix", now}, {"head", now / 2}, {"vector", 4 * now}};
  for (const auto& [name, rate] : rates) {
    EXPECT_TRUE(oracle::identical(arena.master(name), updated(settings, rate).master(name))) << name;
  }
}

TEST_P(AdamWForm, ClipsByTheNormOfAllGradientsAndReturnsTheNormBefore) {
  OptimizerConfig clipping = settings;
  clipping.grad_clip = 1.0;
  for (const double scale : {1.0, 1e-4}) {  // norms of about 250 and 0.025
    ParameterArena arena = make_arena(), clipped_by_hand = make_arena();
    set_gradients(arena, 1, scale);
    set_gradients(clipped_by_hand, 1, scale);
    const auto norm = arena.gradients().to(at::kDouble).norm().item<double>();
    if (norm > 1.0) clipped_by_hand.gradients().div_(norm);
    Optimizer ours(arena, clipping, backend()), plain(clipped_by_hand, settings, backend());
    EXPECT_NEAR(step_of(ours, 0.01), norm, oracle::rounding_error(1) * norm);  // the sum is in float64
    step_of(plain, 0.01);
    const double rounding = 2 * oracle::rounding_error(8);  // clipping and a step, on both sides
    EXPECT_LT(oracle::error(arena.values(), clipped_by_hand.values()), rounding);
    EXPECT_LT(oracle::error(moment("moment1", ours, arena), moment("moment1", plain, arena)), rounding);
    EXPECT_LT(oracle::error(moment("moment2", ours, arena), moment("moment2", plain, arena)), rounding);
  }
}

TEST_P(AdamWForm, ANormThatIsNotFiniteLeavesEverythingAsItIs) {
  for (const double poison : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    ParameterArena arena = make_arena();
    Optimizer optimizer(arena, settings, backend());
    set_gradients(arena, 1);
    step_of(optimizer, 0.01);
    const at::Tensor values = arena.values().clone(), first = moment("moment1", optimizer, arena),
                     second = moment("moment2", optimizer, arena);
    arena.gradients()[arena.size() - 1].fill_(poison);
    EXPECT_FALSE(std::isfinite(step_of(optimizer, 0.01)));
    EXPECT_EQ(optimizer.steps(), 1);
    EXPECT_TRUE(oracle::identical(arena.values(), values));
    EXPECT_TRUE(oracle::identical(moment("moment1", optimizer, arena), first));
    EXPECT_TRUE(oracle::identical(moment("moment2", optimizer, arena), second));
  }
}

TEST_P(AdamWForm, GoesOnBitForBitFromItsMomentsAndStepCount) {
  ParameterArena whole = make_arena(), cut = make_arena();
  Optimizer uninterrupted(whole, settings, backend()), before(cut, settings, backend());
  const auto step = [](Optimizer& optimizer, ParameterArena& arena, std::uint64_t number) {
    set_gradients(arena, number);
    step_of(optimizer, 0.01);
  };
  for (std::uint64_t number = 1; number <= 4; ++number) step(uninterrupted, whole, number);
  for (std::uint64_t number = 1; number <= 2; ++number) step(before, cut, number);
  Optimizer after(cut, settings, backend());
  for (std::size_t i = 0; i < after.states().size(); ++i) after.states()[i].value.copy_(before.states()[i].value);
  after.set_steps(before.steps());
  for (std::uint64_t number = 3; number <= 4; ++number) step(after, cut, number);
  EXPECT_TRUE(oracle::identical(whole.values(), cut.values()));
}

TEST_P(AdamWForm, KeepsFloat32WeightsBesideBfloat16Ones) {
  ParameterArena arena({{"matrix", {20, 30}, ParameterGroup::matrix}}, device(), at::kBFloat16, Gradients::as_weights);
  arena.values().copy_(oracle::normal(1, {arena.size()}));
  arena.refresh_compute();
  Optimizer optimizer(arena, settings, backend());
  set_gradients(arena, 1);
  const at::Tensor before = arena.master("matrix").clone();
  step_of(optimizer, 1e-5);  // too small a step for bfloat16 to see each time
  EXPECT_FALSE(oracle::identical(arena.master("matrix"), before));
  EXPECT_TRUE(oracle::identical(arena.weight("matrix").value, arena.master("matrix").to(at::kBFloat16)));
}

TEST(SumOfSquares, IsTheSquareOfTheNormWhateverTheThreads) {
  const at::Tensor flat = oracle::normal(1, {500003}).to(at::kFloat);
  const auto expected = flat.to(at::kDouble).square().sum().item<double>();
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    const Backend& backend = choose_backend({.kernels = kernels});
    std::set<double> sums;
    for (const int threads : {1, 2, 3, 5}) {
      at::set_num_threads(threads);
      sums.insert(backend.sum_of_squares(flat).item<double>());
    }
    ASSERT_EQ(sums.size(), 1u);
    EXPECT_NEAR(*sums.begin(), expected, oracle::rounding_error(500003, 0x1p-53) * expected);
  }
}

// The model, the loss, the gradients and the optimizer together: one window is overfitted.
TEST(Training, ABatchOfOneWindowIsMemorised) {
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    const GptShape shape = {.n_layer = 2, .n_head = 2, .n_embd = 32, .block_size = 32, .vocab_size = 50};
    const SmallModel small = make_small_model(shape, {.runtime = {.kernels = kernels}});
    OptimizerConfig memorising = settings;
    memorising.grad_clip = 1.0;
    Optimizer optimizer(*small.arena, memorising, small.model->backend());
    const at::Tensor window = oracle::tokens(1, {1, 33}, 50);
    double loss = 0.0;
    for (int step = 0; step < 200; ++step) {
      small.arena->begin_gradients();
      const at::Tensor now = small.model->loss(window.slice(1, 0, 32), window.slice(1, 1));
      now.backward();
      step_of(optimizer, 0.01);
      loss = now.item<double>();
    }
    EXPECT_LT(loss, 0.01);
  }
}

}  // namespace
}  // namespace inkling::test
