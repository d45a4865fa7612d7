#include "recipe/text_sample.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "data/source.h"
#include "data/source_corpus.h"
#include "data/source_reader.h"
#include "recipe/law.h"
#include "text/build_tokenizer.h"
#include "text/text_cuts.h"

namespace inkling::recipe {
namespace {

constexpr std::uint64_t most_training = std::uint64_t{4} << 20, most_held_out = std::uint64_t{512} << 10;
constexpr std::uint64_t piece_bytes = std::uint64_t{64} << 10, most_tail = most_held_out;
constexpr std::uint64_t most_checked = std::uint64_t{256} << 20, most_counted = std::uint64_t{64} << 20;

struct Enough {};  // thrown where a reader has given what was wanted

// The files of a source, one behind the other, read at any place.
class JoinedFiles {
 public:
  explicit JoinedFiles(const Source& source) : files_(source.files) {}

  // Appends [begin, end) of the text to `sample`, without half characters at its ends.
  void append(std::uint64_t begin, std::uint64_t end, std::string& sample) const {
    std::string piece;
    std::uint64_t start = 0;  // of this file in the text
    for (const SourceFile& file : files_) {
      const std::uint64_t size = file.stamp.size;
      const std::uint64_t from = std::max(begin, start), to = std::min(end, start + size);
      if (from < to) {
        const std::size_t before = piece.size();
        piece.resize(before + (to - from));
        InputFile(file.path).read_exactly(from - start, std::as_writable_bytes(std::span(piece).subspan(before)));
      }
      start += size;
    }
    std::size_t first = 0;
    while (first < piece.size() && first < 3 && continues_character(piece[first])) ++first;
    piece.resize(piece.size() - incomplete_utf8_suffix(piece));
    if (first < piece.size()) sample += std::string_view(piece).substr(first);
    leave_if_stopped();
  }

  // The same of pieces that are spread over [begin, end), `most` bytes in all.
  void append_spread(std::uint64_t begin, std::uint64_t end, std::uint64_t most, std::string& sample) const {
    if (end - begin <= most) return append(begin, end, sample);
    const std::uint64_t pieces = std::max<std::uint64_t>(2, most / piece_bytes), bytes = most / pieces;
    const std::uint64_t room = end - begin - bytes;
    for (std::uint64_t i = 0; i < pieces; ++i) {
      // In floating point, as the product may not fit into 64 bits; the last piece ends where the text does.
      const auto at = static_cast<std::uint64_t>(static_cast<double>(room) * static_cast<double>(i) /
                                                 static_cast<double>(pieces - 1));
      append(begin + at, begin + at + bytes, sample);
    }
  }

 private:
  const std::vector<SourceFile>& files_;
};

bool lies_open(const SourceFile& file) {
  return file.compression == Compression::none && (file.kind == FileKind::text || file.kind == FileKind::raw);
}

// The beginning of a source that has to be read from its front, and how many bytes of text all of it has, which is an
// estimate where it has more than were counted.
struct Front {
  std::string text;
  std::uint64_t bytes = 0;
  bool is_estimated = false;
  std::string not_utf8 = {};  // as in TextSample
};

Front read_front(const Corpus& corpus, const Source& source, std::uint64_t most) {
  Front front;
  std::uint64_t read = 0;  // of the files, as they lie on the disk
  const TextVisitor visitor = {
      .part_length = [](std::string_view text, bool more) { return next_lines_length(text, more); },
      .part =
          [&](const PartOfText& part) {
            leave_if_stopped();
            front.bytes += part.text.size();
            if (front.text.size() < most) front.text += part.text;
            if (front.not_utf8.empty() && find_invalid_utf8(part.text)) front.not_utf8 = part.place.text();
            if (front.bytes >= most_counted) throw Enough();
          },
      .end_document = [](Split, const Place&) {},
      .advance = [&](std::uint64_t more) { read += more; },
      .lone_surrogates = [](const Place&, std::size_t) {},
      .separator = corpus.separator};
  try {
    for (const PlannedFile& planned : plan_whole({source}, Split::train)) {
      visit_file(planned, corpus.jsonl_field, visitor);
    }
  } catch (const Enough&) {
    const double whole = static_cast<double>(source.size()) / static_cast<double>(read);
    front.bytes = static_cast<std::uint64_t>(std::max(1.0, whole) * static_cast<double>(front.bytes));
    front.is_estimated = true;
  }
  return front;
}

// Puts the last tenth of what was read where the tail belongs.
void append_front(const std::string& front, TextSample& sample) {
  const std::size_t cut = character_start(front, front.size() - std::min(front.size() / 10, most_held_out));
  sample.training += std::string_view(front).substr(0, cut);
  sample.held_out += std::string_view(front).substr(cut);
}

// The first place of a file that lies open, among its first `most` bytes, that is not UTF-8: "notes.txt:12".
std::string not_utf8_in(const SourceFile& file, std::uint64_t most) {
  constexpr std::uint64_t at_once = std::uint64_t{1} << 20;
  const InputFile input(file.path);
  const std::uint64_t end = std::min(most, file.stamp.size);
  std::string part;
  std::ptrdiff_t lines = 1;
  for (std::uint64_t at = 0; at < end;) {
    leave_if_stopped();
    part.resize(std::min(at_once, end - at));
    input.read_exactly(at, std::as_writable_bytes(std::span(part)));
    if (at + part.size() < file.stamp.size) part.resize(part.size() - incomplete_utf8_suffix(part));
    const auto invalid = find_invalid_utf8(part);
    const auto known = part.begin() + static_cast<std::ptrdiff_t>(invalid.value_or(part.size()));
    lines += std::count(part.begin(), known, '\n');
    if (invalid) return str(file.path.string(), ":", lines);
    if (part.empty()) break;
    at += part.size();
  }
  return {};
}

// The same of a text: `fronts` are of its sources that do not lie open.
std::string not_utf8_in(const Corpus& corpus, const std::vector<std::optional<Front>>& fronts,
                        const TextSample& sample) {
  for (const auto& front : fronts) {
    if (front && !front->not_utf8.empty()) return front->not_utf8;
  }
  std::uint64_t most = most_checked;
  for (const PlannedFile& planned : corpus.files) {
    if (!lies_open(planned.file)) continue;
    if (std::string place = not_utf8_in(planned.file, most); !place.empty()) return place;
    most -= std::min(most, planned.file.stamp.size);
  }
  const bool is_utf8 = !find_invalid_utf8(sample.training) && !find_invalid_utf8(sample.held_out);
  return is_utf8 ? std::string() : corpus.cut_sources.front().name;
}

}  // namespace

TextSample sample_text(const DataConfig& config) {
  DataConfig any = config;
  any.tokenizer.kind = TokenizerKind::byte;  // which takes any encoding: what tokenizer suits is to be found out
  any.validation_source.clear();             // the text's own tail is what a recipe goes by
  const Corpus corpus = examine_corpus(any);
  if (corpus.kind != SourceKind::text) {
    throw Error::input(str(corpus.files.front().file.path.string(),
                           " is no text: a recipe is for text alone; write a configuration for it"));
  }
  std::uint64_t on_disk = 0;
  for (const Source& source : corpus.cut_sources) on_disk += source.size();
  const auto share_of = [&](std::uint64_t most, const Source& source) {
    return static_cast<std::uint64_t>(static_cast<double>(most) * static_cast<double>(source.size()) /
                                      static_cast<double>(on_disk));
  };
  TextSample sample;
  std::vector<std::optional<Front>> fronts;
  for (const Source& source : corpus.cut_sources) {
    const bool is_open = std::all_of(source.files.begin(), source.files.end(), lies_open);
    fronts.push_back(is_open ? std::nullopt
                             : std::optional(read_front(corpus, source, share_of(most_training, source))));
    sample.bytes += is_open ? source.size() : fronts.back()->bytes;
    if (!is_open && fronts.back()->is_estimated) sample.is_estimated = true;
  }
  if (sample.bytes < least_bytes) {
    throw Error::input(str(config.source.front(), " holds ", format_count(sample.bytes),
                           " bytes of text, too few to learn from: take a text of at least ",
                           format_count(least_bytes)));
  }
  sample.val_fraction = std::min(0.1, two_digits(static_cast<double>(most_tail) / static_cast<double>(sample.bytes)));
  for (std::size_t i = 0; i < fronts.size(); ++i) {
    const Source& source = corpus.cut_sources[i];
    if (fronts[i]) {
      append_front(fronts[i]->text, sample);
      continue;
    }
    const auto cut = static_cast<std::uint64_t>((1.0 - sample.val_fraction) * static_cast<double>(source.size()));
    const JoinedFiles files(source);
    files.append_spread(0, cut, share_of(most_training, source), sample.training);
    files.append_spread(cut, source.size(), share_of(most_held_out, source), sample.held_out);
  }
  sample.not_utf8 = not_utf8_in(corpus, fronts, sample);
  return sample;
}

std::optional<SpelledSample> spell(const TextSample& sample, const TokenizerConfig& config) {
  const ReadParts read = [&](const char*, const PartLength& part_length, const TakePart& take) {
    for (std::string_view rest : {std::string_view(sample.training), std::string_view(sample.held_out)}) {
      const bool is_trained_on = rest.data() == sample.training.data();
      while (!rest.empty()) {
        const std::size_t length = part_length(rest, false);
        take(rest.substr(0, length), is_trained_on);
        rest.remove_prefix(length);
      }
    }
  };
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = build_tokenizer(config, read, false);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input || !tokenizer_learns(config)) throw;
    return std::nullopt;
  }
  return spell(sample, *tokenizer);
}

SpelledSample spell(const TextSample& sample, const Tokenizer& tokenizer) {
  SpelledSample spelled{.vocab_size = tokenizer.vocab_size(),
                        .training = encode(tokenizer, sample.training),
                        .held_out = encode(tokenizer, sample.held_out)};
  spelled.bytes_per_token = static_cast<double>(sample.training.size()) / static_cast<double>(spelled.training.size());
  return spelled;
}

}  // namespace inkling::recipe
