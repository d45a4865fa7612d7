#include "data/source_reader.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "data/source_jsonl.h"
#include "formats/json_text.h"

namespace inkling {

namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 20;
// This is far above any document that people train on, and low enough to hold it several times over below 1 GiB.
constexpr std::size_t max_document_line = std::size_t{128} << 20;

// A file read from front to back through a buffer that keeps what the consumer has not taken yet.
class FileStream {
 public:
  FileStream(const SourceFile& source, const TextVisitor& visitor) : visitor_(visitor) {
    if (source.compression == Compression::none) {
      plain_.emplace(source.path);
    } else {
      compressed_.emplace(source.path);
    }
  }

  // Bytes at hand, from offset() on.
  std::string_view view() const { return std::string_view(buffer_).substr(taken_); }
  std::uint64_t offset() const { return read_ - view().size(); }
  bool at_end() const { return at_end_; }
  void take(std::size_t bytes) { taken_ += bytes; }

  // Adds the next chunk to what is at hand.
  void read_more() {
    buffer_.erase(0, taken_);
    taken_ = 0;
    const std::size_t kept = buffer_.size();
    buffer_.resize(kept + chunk_bytes);
    const std::span<std::byte> free(reinterpret_cast<std::byte*>(buffer_.data()) + kept, chunk_bytes);
    const std::size_t count = compressed_ ? compressed_->read(free) : plain_->read_some(read_, free);
    buffer_.resize(kept + count);
    if (plain_) hasher_.update(free.first(count));
    read_ += count;
    at_end_ = count == 0;
    if (visitor_.advance) visitor_.advance(bytes_of_file() - told_);
    told_ = bytes_of_file();
  }

  // Of the file, once it has been read to its end.
  std::string hash() const { return compressed_ ? compressed_->hash() : hasher_.hex(); }

 private:
  std::uint64_t bytes_of_file() const { return compressed_ ? compressed_->bytes_read() : read_; }

  std::optional<InputFile> plain_;  // one of the two
  std::optional<CompressedFile> compressed_;
  const TextVisitor& visitor_;
  Hasher hasher_;
  std::string buffer_;
  std::size_t taken_ = 0;
  std::uint64_t read_ = 0;  // bytes of text
  std::uint64_t told_ = 0;  // bytes of the file that the visitor knows of
  bool at_end_ = false;
};

void skip_byte_order_mark(FileStream& stream) {
  while (stream.view().size() < byte_order_mark.size() && !stream.at_end()) stream.read_more();
  if (stream.view().starts_with(byte_order_mark)) stream.take(byte_order_mark.size());
}

// Visits a text file from the stream's offset, which is at `place`, up to `end`; returns the place behind it.
Place visit_lines(FileStream& stream, std::uint64_t end, Split split, Place place, const TextVisitor& visitor) {
  std::uint64_t last_line = 0;
  while (stream.offset() < end) {
    const std::string_view text = stream.view().substr(0, end - stream.offset());
    const bool more_may_follow = !stream.at_end() && stream.offset() + text.size() < end;
    const std::size_t length = text.empty() ? 0 : visitor.part_length(text, more_may_follow);
    if (length == 0) {
      // The end of a compressed file; or a file has shrunk since it was examined, and the caller looks again.
      if (stream.at_end()) break;
      stream.read_more();
      continue;
    }
    const std::string_view part = text.substr(0, length);
    visitor.part({split, part, place});
    place.line += static_cast<std::uint64_t>(std::count(part.begin(), part.end(), '\n'));
    const std::size_t newline = part.rfind('\n');
    place.before = newline == std::string_view::npos ? place.before + length : length - newline - 1;
    last_line = part.back() == '\n' ? place.line - 1 : place.line;
    stream.take(length);
  }
  if (last_line > 0) visitor.end_document(split, {place.path, last_line});
  return place;
}

void visit_text_file(FileStream& stream, const PlannedFile& planned, const TextVisitor& visitor) {
  const Place begin{&planned.file.path, 1};
  const Place cut = visit_lines(stream, planned.train_bytes, Split::train, begin, visitor);
  visit_lines(stream, most_text_bytes(planned.file), Split::validation, cut, visitor);
}

// Visits one line of .jsonl, which begins at byte `begin` of its file. A document across the cut is cut in proportion.
void visit_json_line(std::string_view line, std::uint64_t begin, const PlannedFile& planned, const std::string& field,
                     const Place& place, const TextVisitor& visitor) {
  if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) return;
  const std::string text = read_json_field(line, field, place);
  const std::size_t lone = visitor.lone_surrogates ? count_lone_surrogates(line) : 0;
  if (lone > 0) visitor.lone_surrogates(place, lone);
  const std::uint64_t end = begin + line.size();
  std::size_t cut = 0;
  if (end <= planned.train_bytes) {
    cut = text.size();
  } else if (begin < planned.train_bytes) {
    const double share = static_cast<double>(planned.train_bytes - begin) / static_cast<double>(line.size());
    cut = character_start(text, static_cast<std::size_t>(share * static_cast<double>(text.size())));
  }
  visit_text(Split::train, std::string_view(text).substr(0, cut), place, visitor);
  visit_text(Split::validation, std::string_view(text).substr(cut), place, visitor);
}

void visit_jsonl_file(FileStream& stream, const PlannedFile& planned, const std::string& field,
                      const TextVisitor& visitor) {
  Place place{&planned.file.path, 1, true};
  std::size_t searched = 0;  // no end of line before this in view()
  while (true) {
    const std::size_t newline = stream.view().find('\n', searched);
    if (newline == std::string_view::npos && !stream.at_end()) {
      searched = stream.view().size();
      if (searched > max_document_line) {
        throw Error::input(str(place.text(), ": a line of more than ", format_bytes(max_document_line),
                               ": .jsonl holds one document a line; split this one"));
      }
      stream.read_more();
      continue;
    }
    const std::size_t length = newline == std::string_view::npos ? stream.view().size() : newline + 1;
    if (length == 0) return;
    visit_json_line(stream.view().substr(0, length), stream.offset(), planned, field, place, visitor);
    stream.take(length);
    searched = 0;
    ++place.line;
  }
}

}  // namespace

std::uint64_t most_text_bytes(const SourceFile& file) {
  return file.compression == Compression::none ? file.stamp.size : std::numeric_limits<std::uint64_t>::max();
}

std::string Place::text() const { return line == 0 ? path->string() : str(path->string(), ":", line); }

void LoneSurrogates::add(const Place& place, std::size_t more) {
  if (count == 0) first = place.text();
  count += more;
}

void LoneSurrogates::warn() const {
  if (count == 0) return;
  log_warning(str(format_count(count),
                  count == 1
                      ? " escape in the JSON is half of a surrogate pair, which is no character, and became U+FFFD: "
                      : " escapes in the JSON are halves of surrogate pairs, which are no characters, and became "
                        "U+FFFD: the first is at ",
                  first));
}

std::string visit_file(const PlannedFile& planned, const std::string& jsonl_field, const TextVisitor& visitor) {
  FileStream stream(planned.file, visitor);
  skip_byte_order_mark(stream);
  if (planned.file.kind == FileKind::jsonl) {
    visit_jsonl_file(stream, planned, jsonl_field, visitor);
  } else {
    visit_text_file(stream, planned, visitor);
  }
  return stream.hash();
}

void visit_text(Split split, std::string_view text, const Place& place, const TextVisitor& visitor) {
  if (text.empty()) return;
  while (!text.empty()) {
    const std::size_t length = visitor.part_length(text, false);
    visitor.part({split, text.substr(0, length), place});
    text.remove_prefix(length);
  }
  visitor.end_document(split, place);
}

void take_part(const PartOfText& part, const std::function<void()>& take,
               const std::function<void(std::string_view)>& check) {
  try {
    return take();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    Place place = part.place;
    if (place.line == 0 || place.one_line) throw Error::input(str(place.text(), ": ", error.message()));
    std::string_view rest = part.text;
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
      try {
        check(line);
      } catch (const Error& of_line) {
        const std::string from = place.before > 0 ? str(" (counted from byte ", place.before, " of the line)") : "";
        throw Error::input(str(place.text(), ": ", of_line.message(), from));
      }
      rest.remove_prefix(line.size());
      ++place.line;
      place.before = 0;
    }
    throw Error::input(str(part.place.text(), ": ", error.message()));
  }
}

}  // namespace inkling
