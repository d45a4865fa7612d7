// Which tokens step s, row r of a batch holds: a function of (seed, step, row), specified in docs/formats.md.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/random.h"

namespace inkling {

enum class WindowKind { epoch, random };

// Windows are block_size + 1 tokens long: inputs are the first block_size, targets the last block_size.
//   epoch:  epoch e cuts the corpus at phase(e) into back-to-back windows and visits them in a keyed permutation;
//           every window once, no buffer, nothing in memory.
//   random: nanoGPT's independent uniform offsets.
class WindowOrder {
 public:
  // Error input if token_count < block_size + 1.
  WindowOrder(WindowKind kind, std::uint64_t seed, std::uint64_t token_count, std::uint64_t block_size);

  // First token of the window with this running number: step * batch_size + row.
  std::uint64_t start(std::uint64_t sample) const;
  std::uint64_t windows_per_epoch() const { return windows_; }

 private:
  WindowKind kind_;
  std::uint64_t seed_, token_count_, block_size_, windows_;
};

}  // namespace inkling
