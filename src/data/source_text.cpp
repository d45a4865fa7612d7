#include "data/source_corpus.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/progress.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "data/source_reader.h"
#include "formats/compressed_file.h"

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

// Notes a separator that begins at byte `begin`, in their order. Returns whether the next document is found.
bool note_separator(std::uint64_t begin, std::uint64_t end, std::uint64_t at, Surroundings& found) {
  if (end <= at) {
    found.document = end;
    return false;
  }
  found.next_document = end;
  if (begin < at) found.character = end;
  return true;
}

// The end of the last separator that ends at or before `at`; 0 if there is none.
std::uint64_t separator_end_before(const InputFile& file, std::string_view separator, std::uint64_t at) {
  std::string block;
  for (std::uint64_t end = at; end >= separator.size();) {
    const std::uint64_t begin = end - std::min<std::uint64_t>(end, 65536);
    block.resize(end - begin);
    file.read_exactly(begin, std::as_writable_bytes(std::span(block)));
    if (const std::size_t found = block.rfind(separator); found != std::string::npos) {
      return begin + found + separator.size();
    }
    if (begin == 0) break;
    end = begin + separator.size() - 1;
    leave_if_stopped();
  }
  return 0;
}

Surroundings look_around_documents(const SourceFile& source, const std::string& separator, std::uint64_t at) {
  const InputFile file(source.path);
  const std::uint64_t size = source.stamp.size;
  Surroundings found{separator_end_before(file, separator, at), size, character_start_in(file, at)};
  std::string block;
  std::uint64_t offset = std::max(found.document, at - std::min<std::uint64_t>(at, separator.size() - 1));
  while (size - offset >= separator.size()) {
    block.resize(std::min<std::uint64_t>(size - offset, 65536));
    file.read_exactly(offset, std::as_writable_bytes(std::span(block)));
    if (const std::size_t place = block.find(separator); place != std::string::npos) {
      note_separator(offset + place, offset + place + separator.size(), at, found);
      break;
    }
    offset += block.size() - (separator.size() - 1);
    leave_if_stopped();
  }
  return found;
}

Surroundings look_around_plain(const SourceFile& source, std::uint64_t at) {
  const InputFile file(source.path);
  if (source.kind != FileKind::jsonl) return {0, source.stamp.size, character_start_in(file, at)};
  return {line_start_before(file, at), line_start_after(file, at - 1), at};
}

// Calls visit(text), piece by piece, to the end or until it returns false. `progress` counts bytes of files, of which
// `done` were read before this one.
template <typename Visit>
void read_compressed(const SourceFile& source, Progress& progress, std::uint64_t done, Visit visit) {
  CompressedFile file(source.path);
  std::string block(std::size_t{1} << 20, '\0');
  while (const std::size_t count = file.read(std::as_writable_bytes(std::span(block)))) {
    if (!visit(std::string_view(block).substr(0, count))) return;
    progress.update(done + file.bytes_read());
    leave_if_stopped();
  }
}

Surroundings look_around_compressed_lines(const SourceFile& source, std::uint64_t size, std::uint64_t at) {
  Progress progress("finding where training ends", source.stamp.size, "B");
  Surroundings found{0, size, at};
  std::uint64_t begin = 0;  // of this piece of the text
  read_compressed(source, progress, 0, [&](std::string_view text) {
    // Where the byte before `at` is in the piece: its beginning or end, if it is in an earlier or a later one.
    const auto here =
        static_cast<std::size_t>(at - 1 > begin ? std::min<std::uint64_t>(at - 1 - begin, text.size()) : 0);
    const std::size_t previous = text.substr(0, here).rfind('\n');
    if (previous != std::string_view::npos) found.document = begin + previous + 1;
    const std::size_t next = text.find('\n', here);
    if (next != std::string_view::npos) {
      found.next_document = begin + next + 1;
      if (found.next_document == at) found.document = at;
    }
    begin += text.size();
    return next == std::string_view::npos;
  });
  return found;
}

std::uint64_t character_start_in_compressed(const SourceFile& source, std::uint64_t at) {
  constexpr std::size_t longest_character = 4;
  const auto end_of = [&](std::string_view text) {
    return text.substr(text.size() - std::min(text.size(), longest_character));
  };
  Progress progress("finding where training ends", source.stamp.size, "B");
  std::string last;  // bytes up to the one at `at`
  std::uint64_t begin = 0;
  read_compressed(source, progress, 0, [&](std::string_view text) {
    last += end_of(text.substr(0, at + 1 - begin));
    last = end_of(last);
    begin += text.size();
    return begin <= at;
  });
  const std::size_t start = character_start(last, last.empty() ? 0 : last.size() - 1);
  return last.empty() || continues_character(last[start]) ? at : at + 1 - (last.size() - start);
}

// Of values of JSON, whose beginnings can be told only by reading from the file's.
Surroundings look_around_elements(const SourceFile& source, std::uint64_t size, std::uint64_t at) {
  Progress progress("finding where training ends", source.stamp.size, "B");
  std::uint64_t done = 0;
  FileStream stream(source, [&](std::uint64_t more) {
    progress.update(done += more);
    leave_if_stopped();
  });
  JsonElements elements(stream, source.path);
  Surroundings found{0, size, at};
  for (bool first = true; const auto element = elements.next(); first = false) {
    if (element->begin >= at) {
      found.next_document = element->begin;
      if (element->begin == at) found.document = at;
      break;
    }
    if (!first) found.document = element->begin;
  }
  return found;
}

Surroundings look_around_compressed_documents(const SourceFile& source, std::uint64_t size,
                                              const std::string& separator, std::uint64_t at) {
  Surroundings found{0, size, character_start_in_compressed(source, at)};
  Progress progress("finding where training ends", source.stamp.size, "B");
  std::string window;       // the piece at hand, behind what may be the beginning of a separator
  std::uint64_t begin = 0;  // of the window in the text
  read_compressed(source, progress, 0, [&](std::string_view text) {
    window += text;
    std::size_t from = 0;
    for (std::size_t place = 0; (place = window.find(separator, from)) != std::string::npos;) {
      from = place + separator.size();
      if (note_separator(begin + place, begin + from, at, found)) return false;
    }
    const std::size_t done = window.size() - std::min(window.size() - from, separator.size() - 1);
    window.erase(0, done);
    begin += done;
    return true;
  });
  return found;
}

Surroundings look_around_compressed(const SourceFile& source, std::uint64_t size, std::uint64_t at) {
  if (source.kind == FileKind::jsonl) return look_around_compressed_lines(source, size, at);
  return {0, size, character_start_in_compressed(source, at)};
}

}  // namespace

std::vector<std::uint64_t> text_sizes(const Source& source) {
  std::uint64_t total = 0, done = 0;
  for (const SourceFile& file : source.files) total += file.compression == Compression::none ? 0 : file.stamp.size;
  Progress progress("measuring compressed text", total, "B");
  std::vector<std::uint64_t> sizes;
  for (const SourceFile& file : source.files) {
    std::uint64_t& size = sizes.emplace_back(file.compression == Compression::none ? file.stamp.size : 0);
    if (file.compression == Compression::none) continue;
    read_compressed(file, progress, done, [&](std::string_view text) {
      size += text.size();
      return true;
    });
    done += file.stamp.size;
  }
  return sizes;
}

Surroundings look_around(const SourceFile& source, std::uint64_t size, std::uint64_t at, const std::string& separator) {
  if (source.kind == FileKind::json) return look_around_elements(source, size, at);
  const bool plain = source.compression == Compression::none;
  if (source.kind != FileKind::jsonl && !separator.empty()) {
    return plain ? look_around_documents(source, separator, at)
                 : look_around_compressed_documents(source, size, separator, at);
  }
  return plain ? look_around_plain(source, at) : look_around_compressed(source, size, at);
}

}  // namespace inkling
