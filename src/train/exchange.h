// What ranks hand each other of the arena: gradients to be added up, and the weights that each has updated.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/arena.h"
#include "runtime/ranks.h"

namespace inkling {

// Sums are rounded in one order, whatever the network does: each rank adds up what it owns, from all the others, in the
// tree of LeafSum over ranks. No more bytes travel than in a ring: 2 (N - 1) times those of the arena in a step. They
// do so a few MiB at a time, so that the next are under way while the last are added. Throws what Ranks throws.
class RankExchange {
 public:
  // owned: what each rank adds up and hands round, whole blocks of the layout. `ranks` are at least two.
  RankExchange(Ranks ranks, const ParameterLayout& layout, std::vector<ParameterRanges> owned, bool on_gpu = false);

  const Ranks& ranks() const { return ranks_; }
  const ParameterRanges& owned() const { return owned_[static_cast<std::size_t>(ranks_.rank())]; }

  // The numbers of those blocks of the layout that this rank owns.
  std::span<const std::size_t> own_blocks() const { return own_blocks_; }

  // Takes the memory of an exchange of float32 where `options` say, and gives it back: LibTorch keeps it for the next.
  void rehearse(const at::TensorOptions& options) const;

  // What this rank owns of `flat` [arena] becomes the sum of what the ranks before `senders` have there. The rest of it
  // stays.
  void add_up(const at::Tensor& flat, int senders);

  // What others own of `flat` [arena] becomes what they have there.
  void hand_round(const at::Tensor& flat);

  // Returns elements of the arena in rank 0, on the CPU, of which each rank has what it owns: `mine`, flat, one range
  // behind the other. In the others an undefined tensor. They go a few MiB at a time.
  at::Tensor collect(const at::Tensor& mine, const ParameterRange& elements) const;

 private:
  // Elements [first, first + counts[k]) of what rank k owns, one behind the other.
  struct Chunk {
    std::int64_t first = 0;
    std::vector<std::int64_t> counts;
  };
  // A chunk on its way.
  struct Parcel {
    at::Tensor sent, received;
    Transfer transfer = {};
  };

  Parcel send_gradients(const at::Tensor& flat, const Chunk& chunk, int senders);
  void add(const at::Tensor& flat, const Chunk& chunk, int senders, const Parcel& parcel);
  Parcel send_own(const at::Tensor& flat, const Chunk& chunk);
  void take(const at::Tensor& flat, const Chunk& chunk, const Parcel& parcel);
  void place(const at::Tensor& received, const ParameterRange& piece, const at::Tensor& all) const;
  void each_chunk(const std::function<Parcel(const Chunk&)>& send,
                  const std::function<void(const Chunk&, const Parcel&)>& receive) const;

  Ranks ranks_;
  std::vector<ParameterRanges> owned_;
  std::vector<std::size_t> own_blocks_;
  std::vector<Chunk> chunks_;
};

// Returns what rehearse() takes on a GPU, of an arena of so many elements.
std::uint64_t exchange_bytes(std::int64_t elements, int ranks);

// Writes the sums of the squares of these blocks: all of a layout's, as the bits of a GPU's sums may depend on what is
// summed beside them. flat: returns those elements of an arena, of some MiB of blocks. squares: float64 [blocks], where
// they are; queued on a GPU.
void square_blocks(const std::function<at::Tensor(const ParameterRange&)>& flat, std::span<const ParameterRange> blocks,
                   const at::Tensor& squares);

// Returns whether the ranks' sums are sums of the batch's tree, so that any such number of ranks gives the same bits.
bool keeps_order(std::int64_t leaves, int ranks);

}  // namespace inkling
