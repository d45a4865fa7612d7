#include "train/exchange.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "runtime/parallel.h"

namespace inkling {
namespace {

// Of all ranks together. A GPU, to which each copy is a call, takes more at once.
constexpr std::int64_t elements_of_chunk = std::int64_t{1} << 20, elements_on_gpu = std::int64_t{1} << 24;

// That are squared at once, of which LibTorch makes float64.
constexpr std::int64_t elements_of_squares = std::int64_t{1} << 22;

// Copies elements [first, first + count) of what `owned` keeps from `flat` to `packed`, or back.
void copy_owned(const at::Tensor& flat, const ParameterRanges& owned, std::int64_t first, const at::Tensor& packed,
                bool back) {
  std::int64_t begin = 0, done = 0;  // of a range, in what is kept
  for (const ParameterRange& range : owned.ranges) {
    const std::int64_t from = std::max(begin, first), to = std::min(begin + range.count(), first + packed.numel());
    if (from < to) {
      const at::Tensor part = flat.narrow(0, range.begin + from - begin, to - from);
      const at::Tensor beside = packed.narrow(0, done, to - from);
      back ? part.copy_(beside) : beside.copy_(part);
      done += to - from;
    }
    begin += range.count();
  }
}

}  // namespace

RankExchange::RankExchange(Ranks ranks, const ParameterLayout& layout, std::vector<ParameterRanges> owned, bool on_gpu)
    : ranks_(std::move(ranks)), owned_(std::move(owned)) {
  const ParameterRanges& mine = this->owned();
  const std::vector<ParameterRange> blocks = layout.blocks();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (mine.within(blocks[i]).count() > 0) own_blocks_.push_back(i);
  }
  std::int64_t most = 0;
  for (const ParameterRanges& of_rank : owned_) most = std::max(most, of_rank.count());
  const std::int64_t length = (on_gpu ? elements_on_gpu : elements_of_chunk) / ranks_.count() + 1;
  for (std::int64_t first = 0; first < most; first += length) {
    Chunk& chunk = chunks_.emplace_back(Chunk{first, {}});
    for (const ParameterRanges& of_rank : owned_) {
      chunk.counts.push_back(std::clamp<std::int64_t>(of_rank.count() - first, 0, length));
    }
  }
}

void RankExchange::rehearse(const at::TensorOptions& options) const {
  const std::vector<std::int64_t>& counts = chunks_.front().counts;
  const std::int64_t mine = counts[static_cast<std::size_t>(ranks_.rank())];
  const std::int64_t of_others = std::accumulate(counts.begin(), counts.end(), -mine);
  std::vector<at::Tensor> taken = {at::empty({mine}, options)};
  for (std::size_t parcel = 0; parcel < std::min<std::size_t>(chunks_.size(), 2); ++parcel) {
    taken.push_back(at::empty({of_others}, options));
    taken.push_back(at::empty({mine * (ranks_.count() - 1)}, options));
  }
}

std::uint64_t exchange_bytes(std::int64_t elements, int ranks) {
  const std::int64_t chunk = std::min(elements, elements_on_gpu), parcels = elements > chunk ? 2 : 1;
  return static_cast<std::uint64_t>((2 * parcels * (ranks - 1) + 1) * chunk / ranks) * sizeof(float);
}

RankExchange::Parcel RankExchange::send_gradients(const at::Tensor& flat, const Chunk& chunk, int senders) {
  const auto me = static_cast<std::size_t>(ranks_.rank());
  const bool sends = ranks_.rank() < senders;
  std::vector<std::int64_t> out(owned_.size()), in(owned_.size());
  std::int64_t sent = 0, received = 0;
  for (std::size_t rank = 0; rank < owned_.size(); ++rank) {
    if (rank == me) continue;
    if (sends) sent += in[rank] = chunk.counts[rank];
    if (rank < static_cast<std::size_t>(senders)) received += out[rank] = chunk.counts[me];
  }
  Parcel parcel = {.sent = at::empty({sent}, flat.options()), .received = at::empty({received}, flat.options())};
  for (std::int64_t rank = 0, begin = 0; rank < ranks_.count(); ++rank) {
    const std::int64_t count = in[static_cast<std::size_t>(rank)];
    copy_owned(flat, owned_[static_cast<std::size_t>(rank)], chunk.first, parcel.sent.narrow(0, begin, count), false);
    begin += count;
  }
  parcel.transfer = ranks_.exchange(parcel.received, std::move(out), parcel.sent, std::move(in));
  return parcel;
}

void RankExchange::add(const at::Tensor& flat, const Chunk& chunk, int senders, const Parcel& parcel) {
  const std::int64_t count = chunk.counts[static_cast<std::size_t>(ranks_.rank())];
  std::vector<at::Tensor> parts;  // of the senders, in order
  for (std::int64_t rank = 0, begin = 0; rank < senders; ++rank) {
    if (rank == ranks_.rank()) {
      copy_owned(flat, owned(), chunk.first, parts.emplace_back(at::empty({count}, flat.options())), false);
    } else {
      parts.push_back(parcel.received.narrow(0, begin, count));
      begin += count;
    }
  }
  for (std::size_t apart = 1; apart < parts.size(); apart *= 2) {
    for (std::size_t i = 0; i + apart < parts.size(); i += 2 * apart) parts[i].add_(parts[i + apart]);
  }
  copy_owned(flat, owned(), chunk.first, parts[0], true);
}

void RankExchange::add_up(const at::Tensor& flat, int senders) {
  each_chunk([&](const Chunk& chunk) { return send_gradients(flat, chunk, senders); },
             [&](const Chunk& chunk, const Parcel& parcel) { add(flat, chunk, senders, parcel); });
}

RankExchange::Parcel RankExchange::send_own(const at::Tensor& flat, const Chunk& chunk) {
  const auto me = static_cast<std::size_t>(ranks_.rank());
  const std::int64_t mine = chunk.counts[me];
  std::vector<std::int64_t> out = chunk.counts, in(owned_.size(), mine);
  out[me] = in[me] = 0;
  std::int64_t received = 0;
  for (const std::int64_t count : out) received += count;
  Parcel parcel = {.sent = at::empty({mine * (ranks_.count() - 1)}, flat.options()),
                   .received = at::empty({received}, flat.options())};
  const at::Tensor copies = parcel.sent.view({ranks_.count() - 1, mine});
  copy_owned(flat, owned(), chunk.first, copies.select(0, 0), false);
  for (int i = 1; i < ranks_.count() - 1; ++i) copies.select(0, i).copy_(copies.select(0, 0));
  parcel.transfer = ranks_.exchange(parcel.received, std::move(out), parcel.sent, std::move(in));
  return parcel;
}

void RankExchange::take(const at::Tensor& flat, const Chunk& chunk, const Parcel& parcel) {
  for (std::int64_t rank = 0, begin = 0; rank < ranks_.count(); ++rank) {
    if (rank == ranks_.rank()) continue;
    const std::int64_t count = chunk.counts[static_cast<std::size_t>(rank)];
    copy_owned(flat, owned_[static_cast<std::size_t>(rank)], chunk.first, parcel.received.narrow(0, begin, count),
               true);
    begin += count;
  }
}

void RankExchange::hand_round(const at::Tensor& flat) {
  each_chunk([&](const Chunk& chunk) { return send_own(flat, chunk); },
             [&](const Chunk& chunk, const Parcel& parcel) { take(flat, chunk, parcel); });
}

// The next chunk is under way while one is worked on.
void RankExchange::each_chunk(const std::function<Parcel(const Chunk&)>& send,
                              const std::function<void(const Chunk&, const Parcel&)>& receive) const {
  const OneThread alone;
  Parcel next = send(chunks_.front());
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const Parcel parcel = std::exchange(next, i + 1 < chunks_.size() ? send(chunks_[i + 1]) : Parcel{});
    parcel.transfer();
    receive(chunks_[i], parcel);
  }
}

at::Tensor RankExchange::collect(const at::Tensor& mine, const ParameterRange& elements) const {
  const auto on_host = mine.options().device(at::kCPU);
  const at::Tensor all = ranks_.is_first() ? at::empty({elements.count()}, on_host) : at::Tensor();
  std::int64_t sent = 0;
  for (std::int64_t begin = elements.begin; begin < elements.end; begin += elements_of_chunk) {
    const ParameterRange piece = {begin, std::min(elements.end, begin + elements_of_chunk)};
    const std::int64_t own = owned().within(piece).count();
    std::vector<std::int64_t> out(owned_.size()), in(owned_.size());
    in[0] = own;
    for (std::size_t rank = 0; all.defined() && rank < owned_.size(); ++rank)
      out[rank] = owned_[rank].within(piece).count();
    const at::Tensor received = at::empty({all.defined() ? piece.count() : 0}, mine.options());
    ranks_.exchange(received, std::move(out), mine.narrow(0, sent, own), std::move(in))();
    sent += own;
    if (all.defined()) place(received.cpu(), piece, all.narrow(0, begin - elements.begin, piece.count()));
  }
  return all;
}

// Of each rank what it owns of a piece, one behind the other, to where it belongs.
void RankExchange::place(const at::Tensor& received, const ParameterRange& piece, const at::Tensor& all) const {
  std::int64_t done = 0;
  for (const ParameterRanges& of_rank : owned_) {
    for (const ParameterRange& range : of_rank.within(piece).ranges) {
      all.narrow(0, range.begin - piece.begin, range.count()).copy_(received.narrow(0, done, range.count()));
      done += range.count();
    }
  }
}

// Blocks of one length that lie behind each other are rows of one tensor.
void square_blocks(const std::function<at::Tensor(const ParameterRange&)>& flat, std::span<const ParameterRange> blocks,
                   const at::Tensor& squares) {
  for (std::size_t i = 0; i < blocks.size();) {
    const std::size_t first = i;
    const auto [begin, end] = blocks[first];
    const std::int64_t length = end - begin;
    std::int64_t rows = 0;
    const auto continues = [&] {
      const bool fits = rows == 0 || (rows + 1) * length <= elements_of_squares;
      return fits && i < blocks.size() && blocks[i].begin == begin + rows * length && blocks[i].count() == length;
    };
    for (; continues(); ++i) ++rows;
    const at::Tensor matrix = flat({begin, begin + rows * length}).view({rows, length});
    squares.narrow(0, static_cast<std::int64_t>(first), rows)
        .copy_(at::linalg_vector_norm(matrix, 2, at::IntArrayRef{1}, false, at::kDouble).square());
  }
}

bool keeps_order(std::int64_t leaves, int ranks) {
  return ranks == 1 || std::has_single_bit(static_cast<std::uint64_t>((leaves + ranks - 1) / ranks));
}

}  // namespace inkling
