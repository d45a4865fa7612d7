// Where the matrices lie that Muon updates, and the memory that it works in.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "model/arena.h"

namespace inkling {

// Returns the hidden matrices of a model, relative to the beginning of their range. Those of one shape that lie equally
// far apart, as a model's layers do, are together, because many small products are faster in one call; but not more
// than fit into a bounded memory. The update of a matrix that is a parameter of its own is sqrt(max(1, out / in)) times
// a nearly orthogonal one (Jordan et al. 2024); matrices that stand side by side in one parameter have no such factor.
std::vector<MuonMatrices> muon_matrices(const ParameterLayout& layout);

// Returns how many floating-point operations the products of an update take.
double muon_flops(const ParameterLayout& layout, std::int64_t newton_schulz_steps);

// Returns memory for a step, on a device.
MuonMemory muon_memory(const ParameterLayout& layout, const at::TensorOptions& options);

// Returns its size.
std::int64_t muon_memory_elements(const ParameterLayout& layout);

}  // namespace inkling
