#include "data/source_reader.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "formats/foreign_file.h"
#include "formats/json.h"

namespace inkling {

namespace {

// Moves a place behind a text that begins there. Returns the line of the text's last character.
std::uint64_t move_behind(std::string_view text, Place& place) {
  const std::size_t newline = text.rfind('\n');
  place.line += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  place.before = newline == std::string_view::npos ? place.before + text.size() : text.size() - newline - 1;
  return text.ends_with('\n') ? place.line - 1 : place.line;
}

// White space at the beginning of a document is held in memory until text follows it, but not as much as this.
constexpr std::size_t longest_blank = std::size_t{16} << 20;

bool is_white_space(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

// Finds where the documents of a stream end, reading each byte once.
class DocumentEnds {
 public:
  explicit DocumentEnds(std::string_view separator) : separator_(separator) {}

  // The front of a text that belongs to one document.
  struct Front {
    std::size_t length;
    bool separator_follows;
    bool more_may_follow;  // of the document
  };
  // `text` is what the stream has at `offset`; more of it may follow.
  Front front_of(std::string_view text, std::uint64_t offset, bool more_may_follow) {
    if (separator_.empty()) return {text.size(), false, more_may_follow};
    const std::size_t at = text.find(separator_, searched_ > offset ? searched_ - offset : 0);
    if (at != std::string_view::npos) {
      searched_ = offset + at;
      return {at, true, false};
    }
    // The last bytes may be the beginning of one.
    const std::size_t kept = more_may_follow ? std::min(text.size(), separator_.size() - 1) : 0;
    searched_ = offset + text.size() - kept;
    return {text.size() - kept, false, more_may_follow};
  }

 private:
  std::string_view separator_;
  std::uint64_t searched_ = 0;  // no separator begins before this byte of the stream, but those that were found
};

// Visits a text file from the stream's offset, which is at `place`, up to `end`; returns the place behind it.
Place visit_lines(FileStream& stream, std::uint64_t end, Split split, Place place, const TextVisitor& visitor) {
  DocumentEnds ends(visitor.separator);
  std::uint64_t last_line = 0;  // of the document so far; 0: it has no text yet
  const auto end_document = [&] {
    if (last_line > 0) visitor.end_document(split, {place.path, last_line});
    last_line = 0;
  };
  while (stream.offset() < end) {
    const std::string_view text = stream.view().substr(0, end - stream.offset());
    const bool more_may_follow = !stream.at_end() && stream.offset() + text.size() < end;
    const DocumentEnds::Front front = ends.front_of(text, stream.offset(), more_may_follow);
    const std::string_view document = text.substr(0, front.length);
    const bool is_blank =
        last_line == 0 && !visitor.separator.empty() && document.size() < longest_blank && is_white_space(document);
    std::size_t length = front.length;
    if (is_blank && front.more_may_follow) {
      length = 0;
    } else if (is_blank) {
      move_behind(document, place);
    } else if (length > 0) {
      length = visitor.part_length(document, front.more_may_follow);
      const std::string_view part = document.substr(0, length);
      if (length > 0) {
        visitor.part({split, part, place});
        last_line = move_behind(part, place);
      }
    }
    if (length == front.length && front.separator_follows) {
      move_behind(visitor.separator, place);
      length += visitor.separator.size();
      end_document();
    }
    stream.take(length);
    if (length > 0) continue;
    // The end of a compressed file; or a file has shrunk since it was examined, and the caller looks again.
    if (stream.at_end()) break;
    stream.read_more();
  }
  end_document();
  return place;
}

void visit_text_file(FileStream& stream, const PlannedFile& planned, const TextVisitor& visitor) {
  const Place begin{&planned.file.path, 1};
  const Place cut = visit_lines(stream, planned.train_bytes, Split::train, begin, visitor);
  visit_lines(stream, most_text_bytes(planned.file), Split::validation, cut, visitor);
}

// `cut`, or the end of the separator in which it lies.
std::size_t behind_separator(std::string_view text, std::size_t cut, std::string_view separator) {
  if (separator.empty()) return cut;
  const std::size_t at = text.find(separator, cut - std::min(cut, separator.size() - 1));
  return at < cut ? at + separator.size() : cut;
}

// Visits a document of JSON, which takes the file's bytes from `begin` to `end`. One across the cut is cut in
// proportion.
void visit_json_text(std::string_view text, std::uint64_t begin, std::uint64_t end, const PlannedFile& planned,
                     const Place& place, const TextVisitor& visitor) {
  std::size_t cut = 0;
  if (end <= planned.train_bytes) {
    cut = text.size();
  } else if (begin < planned.train_bytes) {
    const double share = static_cast<double>(planned.train_bytes - begin) / static_cast<double>(end - begin);
    cut = character_start(text, static_cast<std::size_t>(share * static_cast<double>(text.size())));
    cut = behind_separator(text, cut, visitor.separator);
  }
  visit_text(Split::train, text.substr(0, cut), place, visitor);
  visit_text(Split::validation, text.substr(cut), place, visitor);
}

void tell_of_lone_surrogates(std::string_view json, const Place& place, const TextVisitor& visitor) {
  const std::size_t count = visitor.lone_surrogates ? count_lone_surrogates(json) : 0;
  if (count > 0) visitor.lone_surrogates(place, count);
}

void visit_json_line(std::string_view line, std::uint64_t begin, const PlannedFile& planned, const std::string& field,
                     const Place& place, const TextVisitor& visitor) {
  if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) return;
  const std::string text = read_json_field(line, field, place);
  tell_of_lone_surrogates(line, place, visitor);
  visit_json_text(text, begin, begin + line.size(), planned, place, visitor);
}

void visit_json_file(FileStream& stream, const PlannedFile& planned, const std::string& field,
                     const TextVisitor& visitor) {
  JsonElements elements(stream, planned.file.path);
  while (const auto element = elements.next()) {
    const Place place{&planned.file.path, element->line, true};
    const std::string text = read_json_element(element->text, field, place);
    tell_of_lone_surrogates(element->text, place, visitor);
    visit_json_text(text, element->begin, element->end, planned, place, visitor);
  }
}

void visit_jsonl_file(FileStream& stream, const PlannedFile& planned, const std::string& field,
                      const TextVisitor& visitor) {
  Place place{&planned.file.path, 1, true};
  std::size_t searched = 0;  // no end of line before this in view()
  while (true) {
    const std::size_t newline = stream.view().find('\n', searched);
    if (newline == std::string_view::npos && !stream.at_end()) {
      searched = stream.view().size();
      if (searched > longest_document) {
        throw Error::input(str(place.text(), ": a line of more than ", format_bytes(longest_document),
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

constexpr std::size_t chunk_bytes = std::size_t{1} << 20;

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
  FileStream stream(planned.file, visitor.advance);
  if (planned.file.kind == FileKind::jsonl) {
    visit_jsonl_file(stream, planned, jsonl_field, visitor);
  } else if (planned.file.kind == FileKind::json) {
    visit_json_file(stream, planned, jsonl_field, visitor);
  } else {
    visit_text_file(stream, planned, visitor);
  }
  return stream.hash();
}

void visit_text(Split split, std::string_view text, Place place, const TextVisitor& visitor) {
  const bool counts_lines = place.line > 0 && !place.one_line;
  const auto pass = [&](std::size_t length) {
    const std::uint64_t line = counts_lines ? move_behind(text.substr(0, length), place) : place.line;
    text.remove_prefix(length);
    return line;
  };
  while (!text.empty()) {
    const std::size_t found = visitor.separator.empty() ? std::string_view::npos : text.find(visitor.separator);
    std::size_t left = std::min(found, text.size());
    if (visitor.separator.empty() || !is_white_space(text.substr(0, left))) {
      Place last = place;
      while (left > 0) {
        const std::size_t length = visitor.part_length(text.substr(0, left), false);
        visitor.part({split, text.substr(0, length), place});
        last.line = pass(length);
        left -= length;
      }
      last.before = 0;
      visitor.end_document(split, last);
    }
    pass(std::min(left + visitor.separator.size(), text.size()));
  }
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

FileStream::FileStream(const SourceFile& source, std::function<void(std::uint64_t)> advance)
    : advance_(std::move(advance)) {
  if (source.compression == Compression::none) {
    plain_.emplace(source.path);
  } else {
    compressed_.emplace(source.path);
  }
  while (view().size() < bytes_of_front && !at_end_) read_more();
  refuse_foreign_front(source, view().substr(0, bytes_of_front));
  if (view().starts_with(byte_order_mark)) take(byte_order_mark.size());
}

void FileStream::read_more() {
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
  if (advance_) advance_(bytes_of_file() - told_);
  told_ = bytes_of_file();
}

}  // namespace inkling
