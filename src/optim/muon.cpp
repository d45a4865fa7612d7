#include "optim/muon.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

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

double muon_flops(const ParameterLayout& layout, std::int64_t newton_schulz_steps) {
  double flops = 0;
  for (const MuonMatrices& matrices : muon_matrices(layout)) {
    const auto side = static_cast<double>(matrices.side());
    const double square = static_cast<double>(matrices.count) * side * side * side;
    flops += 4.0 * side * static_cast<double>(matrices.elements()) + 2.0 * square;  // A and p(A) X; and A A
  }
  return flops * static_cast<double>(newton_schulz_steps);
}

MuonMemory muon_memory(const ParameterLayout& layout, const at::TensorOptions& options) {
  const MemorySizes sizes = memory_sizes(layout);
  return {.update = at::zeros({sizes.update}, options),
          .x = at::zeros({sizes.matrices}, options),
          .next = at::zeros({sizes.matrices}, options),
          .gram = at::zeros({sizes.squares}, options),
          .polynomial = at::zeros({sizes.squares}, options)};
}

std::int64_t muon_memory_elements(const ParameterLayout& layout) {
  const MemorySizes sizes = memory_sizes(layout);
  return sizes.update + 2 * sizes.matrices + 2 * sizes.squares;
}

}  // namespace inkling
