#include "data/source_plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "base/files.h"
#include "base/strings.h"

namespace inkling {

namespace {

// The offset of the first byte after the first '\n' at or after `from`; the file's size if there is no '\n'.
std::uint64_t line_start_after(const InputFile& file, std::uint64_t from) {
  std::array<char, 65536> block;
  for (std::uint64_t offset = from;;) {
    const std::size_t count = file.read_some(offset, std::as_writable_bytes(std::span(block)));
    if (count == 0) return file.size();
    const char* const end = block.data() + count;
    const char* const newline = std::find(static_cast<const char*>(block.data()), end, '\n');
    if (newline != end) return offset + static_cast<std::uint64_t>(newline - block.data()) + 1;
    offset += count;
  }
}

// The offset of the line that holds byte `at`.
std::uint64_t line_start_before(const InputFile& file, std::uint64_t at) {
  std::array<char, 65536> block;
  while (at > 0) {
    const std::uint64_t begin = at > block.size() ? at - block.size() : 0;
    const std::span<char> part(block.data(), at - begin);
    file.read_exactly(begin, std::as_writable_bytes(part));
    const auto newline = std::find(part.rbegin(), part.rend(), '\n');
    if (newline != part.rend()) return at - static_cast<std::uint64_t>(newline - part.rbegin());
    at = begin;
  }
  return 0;
}

// `at`, or the beginning of the UTF-8 character that it lies in.
std::uint64_t character_start_in(const InputFile& file, std::uint64_t at) {
  for (std::uint64_t back = 0; back <= std::min<std::uint64_t>(at, 3); ++back) {
    char byte = 0;
    const bool any = file.read_some(at - back, std::as_writable_bytes(std::span(&byte, 1))) == 1;
    if (!any || !continues_character(byte)) return at - back;
  }
  return at;  // not UTF-8 anyway
}

// The cut inside one file at byte `target`, given how far it may move to reach a boundary, and where the file's own
// ends are boundaries too.
struct FileCut {
  std::uint64_t target, reach;
  bool start_is_boundary, end_is_boundary;

  std::uint64_t in(const SourceFile& source) const {
    const InputFile file(source.path);
    const bool lines = source.kind == FileKind::jsonl;
    const std::uint64_t before = lines ? line_start_before(file, target) : 0;
    const std::uint64_t after = lines ? line_start_after(file, target == 0 ? 0 : target - 1) : source.stamp.size;
    std::optional<std::uint64_t> best;
    const auto consider = [&](std::uint64_t boundary) {
      const bool allowed = boundary == 0 ? start_is_boundary : boundary != source.stamp.size || end_is_boundary;
      if (allowed && distance(boundary) <= reach && (!best || distance(boundary) < distance(*best))) best = boundary;
    };
    consider(before);
    consider(after);
    return best ? *best : lines ? target : character_start_in(file, target);
  }

  std::uint64_t distance(std::uint64_t boundary) const {
    return boundary > target ? boundary - target : target - boundary;
  }
};

void plan_source(const Source& source, double val_fraction, std::vector<PlannedFile>& plan) {
  const double size = static_cast<double>(source.size());
  const auto target = static_cast<std::uint64_t>((1.0 - val_fraction) * size);
  const auto reach = static_cast<std::uint64_t>(val_fraction * 0.5 * size);
  std::uint64_t start = 0;  // of this file in the source
  for (std::size_t i = 0; i < source.files.size(); ++i) {
    const SourceFile& file = source.files[i];
    const std::uint64_t end = start + file.stamp.size;
    PlannedFile planned{file, 0};
    if (end <= target) {
      planned.train_bytes = file.stamp.size;
    } else if (start < target) {
      const bool last = i + 1 == source.files.size();
      planned.train_bytes = FileCut{target - start, reach, i > 0, !last}.in(file);
    }
    plan.push_back(std::move(planned));
    start = end;
  }
}

}  // namespace

std::vector<PlannedFile> plan_tail(const std::vector<Source>& sources, double val_fraction) {
  std::vector<PlannedFile> plan;
  for (const Source& source : sources) plan_source(source, val_fraction, plan);
  return plan;
}

std::vector<PlannedFile> plan_whole(const std::vector<Source>& sources, Split split) {
  std::vector<PlannedFile> plan;
  for (const Source& source : sources) {
    for (const SourceFile& file : source.files) {
      plan.push_back({file, split == Split::train ? file.stamp.size : 0});
    }
  }
  return plan;
}

}  // namespace inkling
