// Muon (Jordan et al. 2024), for the hidden matrices: where they lie, the memory that it works in, and the update.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "config/config.h"
#include "model/arena.h"
#include "optim/optimizer.h"

namespace inkling {

// Returns the hidden matrices of a model, relative to the beginning of their range. Those of one shape that lie equally
// far apart, as a model's layers do, are together, because many small products are faster in one call; but not more
// than fit into a bounded memory. The update of a matrix that is a parameter of its own is sqrt(max(1, out / in)) times
// a nearly orthogonal one (Jordan et al. 2024); matrices that stand side by side in one parameter have no such factor.
std::vector<MuonMatrices> muon_matrices(const ParameterLayout& layout);

// Returns memory for a step of a range of so many elements.
MuonMemory muon_memory(std::span<const MuonMatrices> matrices, std::int64_t elements, const at::TensorOptions& options);

// Returns the rule for the hidden matrices, which are all of ParameterGroup::matrix. It keeps a momentum for each
// element.
std::unique_ptr<UpdateRule> make_muon(const OptimizerConfig& config, const ParameterLayout& layout);

std::string describe_muon(const MuonConfig& config);  // "muon, 0.02 for hidden matrices"

}  // namespace inkling
