#include "optim/muon.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "base/strings.h"

namespace inkling {
namespace {

// Past this many elements, products are large enough to be as fast one at a time.
constexpr std::int64_t most_elements = std::int64_t{1} << 25;

// Whether a matrix is the next of these: as large, and as far behind the last as that is behind the one before.
bool continues(const MuonMatrices& matrices, const MuonMatrices& one) {
  const bool is_alike = one.rows == matrices.rows && one.columns == matrices.columns && one.row == matrices.row &&
                        one.scale == matrices.scale;
  if (matrices.elements() + one.elements() > most_elements) return false;
  const std::int64_t behind = one.first - matrices.first;
  if (matrices.count > 1) return is_alike && behind == matrices.count * matrices.apart;
  return is_alike && behind >= one.rows * one.row;  // and not beside it in the same parameter
}

void add(std::vector<MuonMatrices>& all, const MuonMatrices& one) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& matrices) { return continues(matrices, one); });
  if (found == all.end()) {
    all.push_back(one);
    return;
  }
  if (found->count == 1) found->apart = one.first - found->first;
  ++found->count;
}

struct MemorySizes {
  std::int64_t update = 0, matrices = 0, squares = 0;  // elements
};

MemorySizes memory_sizes(const ParameterLayout& layout) {
  const auto [begin, end] = layout.range(ParameterGroup::matrix);
  MemorySizes sizes = {.update = end - begin};
  for (const MuonMatrices& matrices : muon_matrices(layout)) {
    sizes.matrices = std::max(sizes.matrices, matrices.elements());
    sizes.squares = std::max(sizes.squares, matrices.count * matrices.side() * matrices.side());
  }
  return sizes;
}

}  // namespace

std::vector<MuonMatrices> muon_matrices(const ParameterLayout& layout) {
  std::vector<MuonMatrices> all;
  for (const Parameter& parameter : layout.parameters()) {
    if (parameter.spec.group != ParameterGroup::matrix) continue;
    const std::int64_t in = parameter.spec.shape.at(0), out = parameter.spec.shape.at(1);
    MuonMatrices one = {.rows = in, .columns = out, .row = out};
    one.first = parameter.offset - layout.range(ParameterGroup::matrix).begin;
    if (parameter.spec.columns.empty()) {
      one.scale = std::sqrt(std::max(1.0, static_cast<double>(out) / static_cast<double>(in)));
      add(all, one);
    }
    for (const std::int64_t columns : parameter.spec.columns) {
      one.columns = columns;
      add(all, one);
      one.first += columns;
    }
  }
  return all;
}

MuonMemory muon_memory(const ParameterLayout& layout, const at::TensorOptions& options) {
  const MemorySizes sizes = memory_sizes(layout);
  return {.update = at::zeros({sizes.update}, options),
          .x = at::zeros({sizes.matrices}, options),
          .next = at::zeros({sizes.matrices}, options),
          .gram = at::zeros({sizes.squares}, options),
          .polynomial = at::zeros({sizes.squares}, options)};
}

namespace {

class Muon final : public UpdateRule {
 public:
  Muon(const OptimizerConfig& config, const ParameterLayout& layout) : config_(config), layout_(layout) {}

  std::vector<ParameterGroup> groups() const override { return {ParameterGroup::matrix}; }

  std::vector<OptimizerState> states() const override {
    return list_flat_state("momentum", layout_, groups(), range_.momentum);
  }

  std::uint64_t bytes(at::ScalarType compute_dtype) const override {
    const MemorySizes sizes = memory_sizes(layout_);
    const std::int64_t works_in = sizes.update + 2 * sizes.matrices + 2 * sizes.squares;
    return static_cast<std::uint64_t>(range().end - range().begin) * sizeof(float) +
           static_cast<std::uint64_t>(works_in) * c10::elementSize(compute_dtype);
  }

  double flops() const override {
    double flops = 0;
    for (const MuonMatrices& matrices : muon_matrices(layout_)) {
      const auto side = static_cast<double>(matrices.side());
      const double square = static_cast<double>(matrices.count) * side * side * side;
      flops += 4.0 * side * static_cast<double>(matrices.elements()) + 2.0 * square;  // A and p(A) X; and A A
    }
    return flops * static_cast<double>(config_.muon.newton_schulz_steps);
  }

  double peak(ParameterGroup /*matrix*/) const override { return config_.muon.learning_rate; }

  std::vector<double> numbers(ParameterGroup /*matrix*/) const override {
    return {0.0, config_.muon.momentum, config_.muon.weight_decay, config_.grad_clip};
  }

  void begin(ParameterArena& arena, const Backend& backend, const at::Tensor& settings) override {
    const auto part_of = [&](const at::Tensor& flat) { return flat.slice(0, range().begin, range().end); };
    const at::Tensor compute = arena.compute_values();
    backend_ = &backend;
    range_ = {.value = part_of(arena.values()),
              .gradient = part_of(arena.gradients()),
              .momentum = at::zeros({range().end - range().begin}, arena.values().options()),
              .compute = compute.is_same(arena.values()) ? at::Tensor() : part_of(compute),
              .settings = settings.select(0, static_cast<std::int64_t>(ParameterGroup::matrix)),
              .matrices = muon_matrices(layout_),
              .newton_schulz_steps = config_.muon.newton_schulz_steps,
              .memory = backend.muon_works_in_its_memory ? muon_memory(layout_, compute.options()) : MuonMemory()};
  }

  void update(const at::Tensor& norm_squared) override {
    if (range().begin < range().end) backend_->muon(range_, norm_squared);
  }

 private:
  ParameterRange range() const { return layout_.range(ParameterGroup::matrix); }

  const OptimizerConfig config_;
  const ParameterLayout& layout_;
  const Backend* backend_ = nullptr;
  MuonRange range_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_muon(const OptimizerConfig& config, const ParameterLayout& layout) {
  return std::make_unique<Muon>(config, layout);
}

std::string describe_muon(const MuonConfig& config) {
  return str("muon, ", format_shortest(config.learning_rate), " for hidden matrices");
}

}  // namespace inkling
