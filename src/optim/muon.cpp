#include "optim/muon.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

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

MemorySizes memory_sizes(std::span<const MuonMatrices> all, std::int64_t elements) {
  MemorySizes sizes = {.update = elements};
  for (const MuonMatrices& matrices : all) {
    sizes.matrices = std::max(sizes.matrices, matrices.elements());
    sizes.squares = std::max(sizes.squares, matrices.count * matrices.side() * matrices.side());
  }
  return sizes;
}

// Adds the matrices of a parameter that begins at element `first` of a range.
void add_matrices(std::vector<MuonMatrices>& all, const Parameter& parameter, std::int64_t first) {
  const std::int64_t in = parameter.spec.shape.at(0), out = parameter.spec.shape.at(1);
  MuonMatrices one = {.rows = in, .columns = out, .first = first, .row = out};
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

struct MuonPart {
  ParameterRange range;
  std::vector<MuonMatrices> matrices;  // relative to its beginning
};

// Returns the parts of an update of what is owned: a range each where they are few, else a parameter, whose matrices
// are never of one batch. A parameter ends where the next one begins.
std::vector<MuonPart> muon_parts(const ParameterLayout& layout, const ParameterRanges& owned, bool are_few) {
  std::vector<MuonPart> parts;
  for (const ParameterRange& range : owned.ranges) {
    if (are_few) parts.push_back({range, {}});
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
      const Parameter& parameter = layout.parameters()[i];
      if (parameter.offset < range.begin || parameter.offset >= range.end) continue;
      if (!are_few) parts.push_back({{parameter.offset, layout.end_of(i)}, {}});
      add_matrices(parts.back().matrices, parameter, parameter.offset - parts.back().range.begin);
    }
  }
  return parts;
}

// Of the products of one step of the iteration: A and p(A) X; and A A.
double flops_of(std::span<const MuonMatrices> all) {
  double flops = 0;
  for (const MuonMatrices& matrices : all) {
    const auto side = static_cast<double>(matrices.side());
    flops += 4.0 * side * static_cast<double>(matrices.elements()) +
             2.0 * static_cast<double>(matrices.count) * side * side * side;
  }
  return flops;
}

}  // namespace

std::vector<MuonMatrices> muon_matrices(const ParameterLayout& layout) {
  std::vector<MuonMatrices> all;
  for (const Parameter& parameter : layout.parameters()) {
    if (parameter.spec.group != ParameterGroup::matrix) continue;
    add_matrices(all, parameter, parameter.offset - layout.range(ParameterGroup::matrix).begin);
  }
  return all;
}

MuonMemory muon_memory(std::span<const MuonMatrices> matrices, std::int64_t elements,
                       const at::TensorOptions& options) {
  const MemorySizes sizes = memory_sizes(matrices, elements);
  return {.update = at::empty({sizes.update}, options),
          .x = at::empty({sizes.matrices}, options),
          .next = at::empty({sizes.matrices}, options),
          .gram = at::empty({sizes.squares}, options),
          .polynomial = at::empty({sizes.squares}, options)};
}

namespace {

class Muon final : public UpdateRule {
 public:
  Muon(const OptimizerConfig& config, const ParameterLayout& layout) : config_(config), layout_(layout) {}

  std::vector<ParameterGroup> groups() const override { return {ParameterGroup::matrix}; }

  std::vector<OptimizerState> states() const override {
    return list_flat_state("momentum", layout_, groups(), momentum_, owned_);
  }

  std::uint64_t bytes(at::ScalarType compute_dtype, int workers, int ranks) const override {
    std::int64_t works_in = 0;  // of a part
    for (const MuonPart& part : muon_parts(layout_, {{range()}}, workers == 0)) {
      const MemorySizes sizes = memory_sizes(part.matrices, part.range.end - part.range.begin);
      works_in = std::max(works_in, sizes.update + 2 * sizes.matrices + 2 * sizes.squares);
    }
    return static_cast<std::uint64_t>(range().count() / ranks) * sizeof(float) +
           static_cast<std::uint64_t>(std::max(workers, 1) * works_in) * c10::elementSize(compute_dtype);
  }

  double flops() const override {
    return flops_of(muon_matrices(layout_)) * static_cast<double>(config_.muon.newton_schulz_steps);
  }

  double peak(ParameterGroup /*matrix*/) const override { return config_.muon.learning_rate; }

  std::vector<double> numbers(ParameterGroup /*matrix*/) const override {
    return {0.0, config_.muon.momentum, config_.muon.weight_decay, config_.grad_clip};
  }

  std::vector<UpdatePart> pieces() const override {
    std::vector<UpdatePart> all;
    for (const MuonPart& part : muon_parts(layout_, {{range()}}, false)) {
      all.push_back({.range = part.range, .flops = flops_of(part.matrices), .update = {}});
    }
    return all;
  }

  std::vector<UpdatePart> begin(ParameterArena& arena, const Backend& backend, const at::Tensor& settings,
                                const ParameterRanges& owned, UpdateCut cut) override {
    owned_ = owned.within(range());
    momentum_ = at::zeros({owned_.count()}, arena.gradients().options());
    const at::TensorOptions computed = arena.compute_values().options();
    const bool are_few = cut == UpdateCut::few;
    std::vector<UpdatePart> parts;
    for (MuonPart& part : muon_parts(layout_, owned_, are_few)) {
      const std::int64_t count = part.range.end - part.range.begin;
      const double flops = flops_of(part.matrices);
      MuonRange muon = range_of(part.range, arena, std::move(part.matrices));
      muon.settings = settings.select(0, static_cast<std::int64_t>(ParameterGroup::matrix));
      const bool has_memory = backend.muon_works_in_its_memory;
      if (has_memory && are_few) muon.memory = muon_memory(muon.matrices, count, computed);
      const auto update = [muon = std::move(muon), &backend, count, computed,
                           takes_memory = has_memory && !are_few](const at::Tensor& norm_squared) {
        if (!takes_memory) return backend.muon(muon, norm_squared);
        MuonRange at_work = muon;
        at_work.memory = muon_memory(muon.matrices, count, computed);
        backend.muon(at_work, norm_squared);
      };
      parts.push_back({.range = part.range, .flops = flops, .update = update});
    }
    return parts;
  }

 private:
  ParameterRange range() const { return layout_.range(ParameterGroup::matrix); }

  MuonRange range_of(const ParameterRange& part, const ParameterArena& arena,
                     std::vector<MuonMatrices> matrices) const {
    const auto part_of = [&](const at::Tensor& flat) { return flat.slice(0, part.begin, part.end); };
    return {.value = arena.master(part),
            .gradient = part_of(arena.gradients()),
            .momentum = owned_.part_of(momentum_, part),
            .compute = arena.has_copies() ? part_of(arena.compute_values()) : at::Tensor(),
            .settings = {},
            .matrices = std::move(matrices),
            .newton_schulz_steps = config_.muon.newton_schulz_steps,
            .memory = {}};
  }

  const OptimizerConfig config_;
  const ParameterLayout& layout_;
  ParameterRanges owned_;  // of range()
  at::Tensor momentum_;    // float32, of these
};

}  // namespace

std::unique_ptr<UpdateRule> make_muon(const OptimizerConfig& config, const ParameterLayout& layout) {
  return std::make_unique<Muon>(config, layout);
}

std::string describe_muon(const MuonConfig& config) {
  return str("muon, ", format_shortest(config.learning_rate), " for hidden matrices");
}

}  // namespace inkling
