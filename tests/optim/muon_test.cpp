// Muon against its formula in float64, and what its updates are.
#include "optim/muon.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "backend/choose.h"
#include "base/strings.h"
#include "model/parameters.h"
#include "optim/optimizer.h"
#include "tests/cuda_first.h"
#include "tests/needs_gpu.h"
#include "tests/oracle/emulated_library.h"
#include "tests/oracle/rounding.h"
#include "tests/oracle/tensors.h"

namespace inkling::test {
namespace {

const OptimizerConfig by_muon = {
    .name = OptimizerName::muon,
    .learning_rate = 0.01,
    .grad_clip = 0.0,
    .muon = {.learning_rate = 0.02, .momentum = 0.9, .weight_decay = 0.1, .newton_schulz_steps = 5}};

const std::vector<ParameterSpec> all_shapes = {
    {"table", {30, 16}, ParameterGroup::embedding},   {"packed", {32, 64}, ParameterGroup::matrix, {32, 16, 16}},
    {"wide", {24, 90}, ParameterGroup::matrix},       {"tall", {90, 24}, ParameterGroup::matrix},
    {"tall again", {90, 24}, ParameterGroup::matrix}, {"square", {33, 33}, ParameterGroup::matrix},
    {"row", {1, 40}, ParameterGroup::matrix},         {"column", {40, 1}, ParameterGroup::matrix},
    {"head", {30, 16}, ParameterGroup::head},         {"vector", {77}, ParameterGroup::vector}};

struct MuonCase {
  const char* name;
  Kernels kernels;
  enum { on_cpu, on_emulated_gpu, on_gpu } where;
};

class MuonForm : public testing::TestWithParam<MuonCase> {
 protected:
  void SetUp() override {
    at::set_num_threads(2);
    if (GetParam().where == MuonCase::on_gpu) INKLING_NEEDS_GPU(why_no_cuda());
    if (GetParam().where == MuonCase::on_emulated_gpu) gpu_.emplace();
  }
  const Backend& backend() const { return choose_backend({.device = device(), .kernels = GetParam().kernels}); }
  at::Device device() const {
    return GetParam().where == MuonCase::on_gpu ? at::Device("cuda:0") : at::Device(at::kCPU);
  }
  ParameterArena arena_of(const std::vector<ParameterSpec>& specs, at::ScalarType dtype = at::kFloat) const {
    ParameterArena arena(specs, device(), dtype, Gradients::as_weights);
    for (const Parameter& parameter : arena.parameters()) {
      arena.master(parameter.spec.name).copy_(oracle::normal(1, parameter.spec.shape));
    }
    arena.refresh_compute();
    return arena;
  }

 private:
  std::optional<oracle::OtherBackend> gpu_;
};

void make_step(Optimizer& optimizer, ParameterArena& arena, std::uint64_t number, double scale = 1.0) {
  std::uint64_t key = 1000 * number;
  for (const Parameter& parameter : arena.parameters()) {
    parameter.part_of(arena.gradients()).copy_(oracle::normal(++key, parameter.spec.shape, scale));
  }
  optimizer.set_learning_rate(by_muon.learning_rate);
  optimizer.update();
}

// The polynomial of a step, of one singular value.
double through_newton_schulz(double s, std::int64_t steps) {
  for (std::int64_t step = 0; step < steps; ++step) s = s * (3.4445 + s * s * (-4.7750 + s * s * 2.0315));
  return s;
}

// Jordan et al. 2024 in float64, as it is written: always from the left.
at::Tensor orthogonalized(const at::Tensor& u) {
  at::Tensor x = u / u.norm();
  for (int step = 0; step < 5; ++step) {
    const at::Tensor a = at::matmul(x, x.t());
    x = 3.4445 * x + at::matmul(-4.7750 * a + 2.0315 * at::matmul(a, a), x);
  }
  return x;
}

struct PlainMuon {
  at::Tensor value, momentum;  // float64 [in, out]
  double scale = 1.0;

  void step(const at::Tensor& gradient) {
    const MuonConfig& muon = by_muon.muon;
    momentum = muon.momentum * momentum + gradient;
    const at::Tensor direction = orthogonalized(gradient + muon.momentum * momentum);
    value = value * (1.0 - muon.weight_decay * muon.learning_rate) - muon.learning_rate * scale * direction;
  }
};

// The matrices of a parameter, as views of it, each with the factor of its update.
std::vector<PlainMuon> matrices_in(const Parameter& parameter, const at::Tensor& flat) {
  const at::Tensor whole = parameter.part_of(flat).to(at::kCPU, at::kDouble, false, true);
  const auto in = static_cast<double>(whole.size(0)), out = static_cast<double>(whole.size(1));
  if (parameter.spec.columns.empty()) {
    return {{whole, at::zeros_like(whole), std::sqrt(std::max(1.0, out / in))}};
  }
  std::vector<PlainMuon> all;
  std::int64_t first = 0;
  for (const std::int64_t columns : parameter.spec.columns) {
    const at::Tensor part = whole.narrow(1, first, columns).clone();
    all.push_back({part, at::zeros_like(part), 1.0});
    first += columns;
  }
  return all;
}

// How far rounding may carry the update of a matrix from the exact one, relative to the latter's norm, times what the
// update is to a row. The three terms of a step are up to a + |b| + |c| times as large as what comes of them, their
// sums are as long as both sides; and a step magnifies an error at most by the steepest slope of its polynomial, which
// is 3.9 on [0, 1.2].
double allowed_error(const at::Tensor& matrix) {
  const double terms = 3.4445 + 4.7750 + 2.0315, slope = 3.9;
  const auto sums = static_cast<double>(matrix.size(0) + 2 * std::min(matrix.size(0), matrix.size(1)) + 10);
  double error = oracle::rounding_error(10);  // of the matrix that the iteration begins with
  for (int step = 0; step < 5; ++step) error = slope * error + terms * oracle::rounding_error(sums);
  return error;
}

TEST_P(MuonForm, IsThePaperInDoublePrecisionForEveryShape) {
  constexpr int steps = 4;
  ParameterArena arena = arena_of(all_shapes);
  Optimizer optimizer(arena, by_muon, backend());
  std::vector<std::vector<PlainMuon>> plain;
  for (const Parameter& parameter : arena.parameters()) {
    const bool is_matrix = parameter.spec.group == ParameterGroup::matrix;
    plain.push_back(is_matrix ? matrices_in(parameter, arena.values()) : std::vector<PlainMuon>{});
  }
  for (std::uint64_t number = 1; number <= steps; ++number) {
    make_step(optimizer, arena, number);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      if (plain[i].empty()) continue;
      const std::vector<PlainMuon> gradients = matrices_in(arena.parameters()[i], arena.gradients());
      for (std::size_t j = 0; j < plain[i].size(); ++j) plain[i][j].step(gradients[j].value);
    }
  }
  EXPECT_EQ(optimizer.steps(), steps);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (plain[i].empty()) continue;
    const std::vector<PlainMuon> ours = matrices_in(arena.parameters()[i], arena.values());
    for (std::size_t j = 0; j < ours.size(); ++j) {
      const at::Tensor& expected = plain[i][j].value;
      // Of each step the norm of a direction is at most 1.3 times the root of its rank.
      const double rank = static_cast<double>(std::min(expected.size(0), expected.size(1)));
      const double moved = steps * by_muon.muon.learning_rate * plain[i][j].scale * 1.3 * std::sqrt(rank);
      const double rounded = oracle::rounding_error(2 * steps) * expected.norm().item<double>();
      EXPECT_LT((ours[j].value - expected).norm().item<double>(), moved * allowed_error(expected) + rounded)
          << arena.parameters()[i].spec.name << " " << j;
    }
  }
}

// A matrix with the singular values that random ones of this shape have is well conditioned.
TEST_P(MuonForm, TakesEverySingularValueThroughItsPolynomialAndSoNearOne) {
  ParameterArena arena = arena_of({{"wide", {24, 96}, ParameterGroup::matrix}});
  Optimizer optimizer(arena, by_muon, backend());
  arena.values().zero_();
  make_step(optimizer, arena, 1);
  const auto parameter = arena.parameters().front();
  const at::Tensor gradient = parameter.part_of(arena.gradients()).to(at::kCPU, at::kDouble);
  const double factor = by_muon.muon.learning_rate * 2.0;  // the root of 96 / 24
  const at::Tensor direction = parameter.part_of(arena.values()).to(at::kCPU, at::kDouble) / -factor;
  const at::Tensor before = at::linalg_svdvals(gradient / gradient.norm());
  const at::Tensor after = std::get<0>(at::linalg_svdvals(direction).sort());
  std::vector<double> expected;
  for (std::int64_t i = 0; i < before.numel(); ++i) {
    expected.push_back(through_newton_schulz(before[i].item<double>(), 5));
  }
  std::sort(expected.begin(), expected.end());
  // A singular value moves by no more than the norm of what was added to the matrix (Weyl).
  const double rounding = allowed_error(direction) * direction.norm().item<double>();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(after[static_cast<std::int64_t>(i)].item<double>(), expected[i], rounding) << i;
  }
  // What five steps give of the singular values of a well-conditioned matrix.
  EXPECT_GT(after.min().item<double>(), 0.6);
  EXPECT_LT(after.max().item<double>(), 1.3);
}

TEST_P(MuonForm, LeavesTheOtherGroupsToAdamWBitForBit) {
  ParameterArena ours = arena_of(all_shapes), theirs = arena_of(all_shapes);
  OptimizerConfig by_adamw = by_muon;
  by_adamw.name = OptimizerName::adamw;
  Optimizer muon(ours, by_muon, backend()), adamw(theirs, by_adamw, backend());
  for (std::uint64_t number = 1; number <= 3; ++number) {
    make_step(muon, ours, number);
    make_step(adamw, theirs, number);
  }
  for (const Parameter& parameter : ours.parameters()) {
    const std::string& name = parameter.spec.name;
    EXPECT_EQ(oracle::identical(ours.master(name), theirs.master(name)), parameter.spec.group != ParameterGroup::matrix)
        << name;
  }
}

TEST_P(MuonForm, ClipsTheGradientByTheNormOfAll) {
  OptimizerConfig clipping = by_muon;
  clipping.grad_clip = 1.0;
  ParameterArena clipped = arena_of(all_shapes), by_hand = arena_of(all_shapes);
  Optimizer ours(clipped, clipping, backend()), plain(by_hand, by_muon, backend());
  make_step(ours, clipped, 1);
  make_step(plain, by_hand, 1, 1.0 / std::sqrt(ours.norm_squared().item<double>()));
  const auto momentum = [](const Optimizer& optimizer) {
    std::vector<at::Tensor> all;
    for (const OptimizerState& state : optimizer.states()) {
      if (state.name == "momentum") all.push_back(state.value.flatten().to(at::kCPU, at::kDouble));
    }
    return at::cat(all);
  };
  const at::Tensor expected = momentum(plain);
  EXPECT_LT((momentum(ours) - expected).norm().item<double>(),
            2 * oracle::rounding_error(8) * expected.norm().item<double>());
}

TEST_P(MuonForm, AGradientThatIsNotFiniteLeavesEverythingAsItIs) {
  for (const double poison : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    ParameterArena arena = arena_of(all_shapes);
    Optimizer optimizer(arena, by_muon, backend());
    make_step(optimizer, arena, 1);
    std::vector<at::Tensor> before = {arena.values().clone()}, after = {arena.values()};
    for (const OptimizerState& state : optimizer.states()) {
      before.push_back(state.value.clone());
      after.push_back(state.value);
    }
    arena.gradients()[arena.range(ParameterGroup::matrix).begin + 5].fill_(poison);
    optimizer.update();
    EXPECT_EQ(optimizer.steps(), 1);
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(oracle::identical(after[i], before[i])) << i;
  }
}

TEST_P(MuonForm, AGradientOfZerosOnlyDecays) {
  ParameterArena arena = arena_of(all_shapes);
  Optimizer optimizer(arena, by_muon, backend());
  const at::Tensor before = arena.values().clone();
  make_step(optimizer, arena, 1, 0.0);
  const double decay = 1.0 - by_muon.muon.learning_rate * by_muon.muon.weight_decay;
  for (const Parameter& parameter : arena.parameters()) {
    if (parameter.spec.group != ParameterGroup::matrix) continue;
    const at::Tensor expected = parameter.part_of(before).to(at::kDouble) * decay;
    EXPECT_LT(oracle::error(parameter.part_of(arena.values()), expected), oracle::rounding_error(3))
        << parameter.spec.name;
  }
}

TEST_P(MuonForm, GoesOnBitForBitFromItsStatesAndStepCount) {
  ParameterArena whole = arena_of(all_shapes), cut = arena_of(all_shapes);
  Optimizer uninterrupted(whole, by_muon, backend()), before(cut, by_muon, backend());
  for (std::uint64_t number = 1; number <= 4; ++number) make_step(uninterrupted, whole, number);
  for (std::uint64_t number = 1; number <= 2; ++number) make_step(before, cut, number);
  Optimizer after(cut, by_muon, backend());
  for (std::size_t i = 0; i < after.states().size(); ++i) after.states()[i].value.copy_(before.states()[i].value);
  after.set_steps(before.steps());
  for (std::uint64_t number = 3; number <= 4; ++number) make_step(after, cut, number);
  EXPECT_TRUE(oracle::identical(whole.values(), cut.values()));
}

class MuonInBfloat16 : public MuonForm {};

TEST_P(MuonInBfloat16, KeepsFloat32WeightsBesideBfloat16Ones) {
  ParameterArena arena = arena_of(all_shapes, at::kBFloat16);
  Optimizer optimizer(arena, by_muon, backend());
  const at::Tensor before = arena.master("tall").clone();
  make_step(optimizer, arena, 1);
  EXPECT_FALSE(oracle::identical(arena.master("tall"), before));
  for (const Parameter& parameter : arena.parameters()) {
    const std::string& name = parameter.spec.name;
    EXPECT_TRUE(oracle::identical(arena.weight(name).value, arena.master(name).to(at::kBFloat16))) << name;
    EXPECT_TRUE(arena.master(name).isfinite().all().item<bool>()) << name;
  }
}

std::string name_of_muon_case(const testing::TestParamInfo<MuonCase>& form) { return form.param.name; }
const auto on_cpu = testing::Values(MuonCase{"fused", Kernels::fused, MuonCase::on_cpu},
                                    MuonCase{"reference", Kernels::reference, MuonCase::on_cpu});
const auto emulated = testing::Values(MuonCase{"fused", Kernels::fused, MuonCase::on_emulated_gpu},
                                      MuonCase{"reference", Kernels::reference, MuonCase::on_emulated_gpu});
const auto on_gpu = testing::Values(MuonCase{"fused", Kernels::fused, MuonCase::on_gpu},
                                    MuonCase{"reference", Kernels::reference, MuonCase::on_gpu});

INSTANTIATE_TEST_SUITE_P(Cpu, MuonForm, on_cpu, name_of_muon_case);
INSTANTIATE_TEST_SUITE_P(Emulated, MuonForm, emulated, name_of_muon_case);
INSTANTIATE_TEST_SUITE_P(Cuda, MuonForm, on_gpu, name_of_muon_case);
// The fused kernels of the CPU train in float32 alone.
INSTANTIATE_TEST_SUITE_P(Cpu, MuonInBfloat16,
                         testing::Values(MuonCase{"reference", Kernels::reference, MuonCase::on_cpu}),
                         name_of_muon_case);
INSTANTIATE_TEST_SUITE_P(Emulated, MuonInBfloat16, emulated, name_of_muon_case);
INSTANTIATE_TEST_SUITE_P(Cuda, MuonInBfloat16, on_gpu, name_of_muon_case);

TEST(MuonMatrices, HoldEveryElementOfEveryMatrixOnce) {
  for (const std::int64_t n_kv_head : {1, 2, 4}) {
    GptShape shape = {.n_layer = 3, .n_head = 4, .n_embd = 20, .block_size = 8, .vocab_size = 11};
    shape.n_kv_head = n_kv_head;
    shape.n_inner = shape.n_embd;
    const ParameterLayout layout(gpt_parameters(shape));
    const auto [begin, end] = layout.range(ParameterGroup::matrix);
    const at::Tensor counts = at::zeros({end - begin}), expected = at::zeros({end - begin});
    for (const MuonMatrices& matrices : muon_matrices(layout)) matrices.part_of(counts).add_(1.0);
    for (const Parameter& parameter : layout.parameters()) {
      if (parameter.spec.group == ParameterGroup::matrix) parameter.part_of(expected, begin).fill_(1.0);
    }
    EXPECT_TRUE(oracle::identical(counts, expected)) << n_kv_head;
  }
}

TEST(MuonMatrices, OfAllLayersAreTogetherAndQueriesKeysAndValuesApart) {
  const GptShape shape = {.n_layer = 5, .n_head = 4, .n_embd = 32, .block_size = 8, .vocab_size = 11};
  const std::vector<MuonMatrices> all = muon_matrices(ParameterLayout(gpt_parameters(shape)));
  ASSERT_EQ(all.size(), 6u);  // queries, keys, values, and the three other matrices of a block
  std::vector<std::pair<std::int64_t, double>> columns_and_scales;
  for (const MuonMatrices& matrices : all) {
    EXPECT_EQ(matrices.count, 5);
    columns_and_scales.emplace_back(matrices.columns, matrices.scale);
  }
  EXPECT_EQ(columns_and_scales, (std::vector<std::pair<std::int64_t, double>>{
                                    {32, 1.0}, {32, 1.0}, {32, 1.0}, {32, 1.0}, {128, 2.0}, {32, 1.0}}));
}

// 16 layers of matrices of 2^22 elements.
TEST(MuonMatrices, AreTogetherOnlyAsFarAsMemoryIsBounded) {
  std::vector<ParameterSpec> specs;
  for (int layer = 0; layer < 16; ++layer) specs.push_back({str("matrix ", layer), {2048, 2048}});
  const std::vector<MuonMatrices> all = muon_matrices(ParameterLayout(specs));
  ASSERT_EQ(all.size(), 2u);
  for (const MuonMatrices& matrices : all) EXPECT_EQ(matrices.count, 8);
  EXPECT_EQ(all[1].first, 8 * all[0].apart);
}

TEST(OptimizerBytes, AreThoseOfTheStatesAndHalfAsManyForMatricesUnderMuon) {
  const ParameterLayout layout(all_shapes);
  const auto [begin, end] = layout.range(ParameterGroup::matrix);
  const auto bytes = [](std::int64_t elements) { return static_cast<std::uint64_t>(elements) * sizeof(float); };
  EXPECT_EQ(optimizer_bytes({.name = OptimizerName::adamw}, layout, at::kFloat), 2 * bytes(layout.size()));
  const std::uint64_t states = 2 * bytes(layout.size()) - bytes(end - begin);
  const MuonMemory memory = muon_memory(muon_matrices(layout), end - begin, at::TensorOptions().dtype(at::kFloat));
  const std::uint64_t works_in = memory.update.nbytes() + memory.x.nbytes() + memory.next.nbytes() +
                                 memory.gram.nbytes() + memory.polynomial.nbytes();
  EXPECT_EQ(optimizer_bytes({.name = OptimizerName::muon}, layout, at::kFloat), states + works_in);
  EXPECT_EQ(optimizer_bytes({.name = OptimizerName::muon}, layout, at::kBFloat16), states + works_in / 2);
}

}  // namespace
}  // namespace inkling::test
