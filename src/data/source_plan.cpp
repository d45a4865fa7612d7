#include "data/source_plan.h"

#include <cstddef>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/strings.h"
#include "data/source_text.h"

namespace inkling {

namespace {

// The cut inside one file whose text has `size` bytes, at byte `target`, given how far it may move to reach a boundary,
// and where the file's own ends are boundaries too.
struct FileCut {
  std::uint64_t size, target, reach;
  bool start_is_boundary, end_is_boundary;

  std::uint64_t in(const SourceFile& source, const std::string& separator) const {
    const Surroundings around = look_around(source, size, target, separator);
    std::optional<std::uint64_t> best;
    const auto consider = [&](std::uint64_t boundary) {
      const bool allowed = boundary == 0 ? start_is_boundary : boundary != size || end_is_boundary;
      if (allowed && distance(boundary) <= reach && (!best || distance(boundary) < distance(*best))) best = boundary;
    };
    consider(around.document);
    consider(around.next_document);
    return best.value_or(around.character);
  }

  std::uint64_t distance(std::uint64_t boundary) const {
    return boundary > target ? boundary - target : target - boundary;
  }
};

void plan_source(const Source& source, double val_fraction, const std::string& separator,
                 std::vector<PlannedFile>& plan) {
  const std::vector<std::uint64_t> sizes = text_sizes(source);
  const std::uint64_t total = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  if (total == 0) throw Error::input(str(source.name, ":1: the file is empty: put text into it or name another"));
  const auto target = static_cast<std::uint64_t>((1.0 - val_fraction) * static_cast<double>(total));
  const auto reach = static_cast<std::uint64_t>(val_fraction * 0.5 * static_cast<double>(total));
  std::uint64_t start = 0;  // of this file in the source
  for (std::size_t i = 0; i < source.files.size(); ++i) {
    const SourceFile& file = source.files[i];
    const std::uint64_t end = start + sizes[i];
    PlannedFile planned{file, 0};
    if (end <= target) {
      planned.train_bytes = sizes[i];
    } else if (start < target) {
      const bool last = i + 1 == source.files.size();
      planned.train_bytes = FileCut{sizes[i], target - start, reach, i > 0, !last}.in(file, separator);
    }
    plan.push_back(std::move(planned));
    start = end;
  }
}

}  // namespace

std::vector<PlannedFile> plan_tail(const std::vector<Source>& sources, double val_fraction,
                                   const std::string& separator) {
  std::vector<PlannedFile> plan;
  for (const Source& source : sources) plan_source(source, val_fraction, separator, plan);
  return plan;
}

std::vector<PlannedFile> plan_whole(const std::vector<Source>& sources, Split split) {
  std::vector<PlannedFile> plan;
  for (const Source& source : sources) {
    for (const SourceFile& file : source.files) {
      plan.push_back({file, split == Split::train ? most_text_bytes(file) : 0});
    }
  }
  return plan;
}

}  // namespace inkling
