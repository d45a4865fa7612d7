// The keys and values of several texts that grow at the same time.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "formats/token_file.h"
#include "model/device.h"
#include "model/gpt.h"

namespace inkling {

class CachedRows {
 public:
  // `model` must outlive this.
  CachedRows(const Gpt& model, const Runtime& runtime, std::int64_t max_rows);

  std::size_t count() const { return held_.size(); }
  // Error internal for a number of texts that these rows cannot have become: rows are removed by remove() alone.
  void check_texts(std::size_t texts) const;
  // Positions of the row that are cached.
  std::uint64_t length(std::size_t row) const { return held_[row].length; }

  // Row `row`, or a new one behind the last, holds everything but the last token of the text's context afterwards. That
  // one is decoded together with those of the other rows. True if the row had to be encoded, alone.
  bool hold_all_but_last(std::size_t row, std::span<const Token> text);

  // Views of all rows, for one step; after which each has grown by a position.
  KeyValueCache all() const { return rows(0, static_cast<std::int64_t>(held_.size())); }
  void grow();

  // The last row takes the place of this one.
  void remove(std::size_t row);

 private:
  struct Held {
    std::uint64_t start = 0;   // the context's first token in its text
    std::uint64_t length = 0;  // cached tokens from there on
  };

  KeyValueCache rows(std::int64_t first, std::int64_t count) const;

  const Gpt& model_;
  Runtime runtime_;
  KeyValueCache cache_;
  std::vector<Held> held_;  // of the rows there are
};

// Numbers as int64 on the device.
template <typename Numbers>
at::Tensor to_device(const Numbers& numbers, at::Device device) {
  const at::Tensor host = at::empty({static_cast<std::int64_t>(std::size(numbers))}, at::kLong);
  std::copy(std::begin(numbers), std::end(numbers), host.data_ptr<std::int64_t>());
  return host.to(device);
}

}  // namespace inkling
