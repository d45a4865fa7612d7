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
constexpr std::uint64_t piece_bytes = std::uint64_t{64} << 10;
constexpr std::uint64_t most_checked = std::uint64_t{256} << 20, most_counted = std::uint64_t{64} << 20;

struct Enough {};  // thrown where a reader has read as much as was wanted

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
        if (from == start && std::string_view(piece).substr(before).starts_with(byte_order_mark)) {
          piece.erase(before, byte_order_mark.size());
        }
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

// Whether a place in its text is a place in its files, so that any part of it can be read.
bool lies_open(const Source& source) {
  return std::ranges::all_of(source.files, [](const SourceFile& file) {
    return file.compression == Compression::none && (file.kind == FileKind::text || file.kind == FileKind::raw);
  });
}

// The beginning of a source, read as training reads it, and how many bytes of text all of it has, which is an estimate
// where it has more than were looked at.
struct Front {
  std::string text;
  std::uint64_t bytes = 0;
  bool is_estimated = false;
  std::string not_utf8 = {};  // as in TextSample
};

// Keeps `most_kept` bytes of text, and reads until `most_seen` were seen.
Front read_front(const Corpus& corpus, const Source& source, std::uint64_t most_kept, std::uint64_t most_seen) {
  Front front;
  std::uint64_t read = 0;  // of the files, as they lie on the disk
  const TextVisitor visitor = {
      .part_length = next_line_length,
      .part =
          [&](const PartOfText& part) {
            front.bytes += part.text.size();
            const std::uint64_t room = most_kept - front.text.size();
            front.text += room < part.text.size() ? part.text.substr(0, character_start(part.text, room)) : part.text;
            if (front.not_utf8.empty() && find_invalid_utf8(part.text)) front.not_utf8 = part.place.text();
          },
      .end_document = [](Split, const Place&) {},
      .advance =
          [&](std::uint64_t more) {
            leave_if_stopped();
            if (more > 0 && read > 0 && front.bytes >= most_seen) throw Enough();  // which it was of all before this
            read += more;
          },
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

}  // namespace

std::string names_of(const std::vector<std::string>& sources) {
  return str(sources.front(), sources.size() > 1 ? str(" and ", sources.size() - 1, " more") : "");
}

TextSample sample_text(const DataConfig& config) {
  if (source_kind(config) != SourceKind::text) {
    throw Error::input(
        str(config.source.front(), " is no text: a recipe is for text alone; write a configuration for it"));
  }
  DataConfig data = config;
  data.validation_source.clear();  // the text's own tail is what a recipe goes by
  const Corpus corpus = examine_corpus(data);
  std::uint64_t on_disk = 0;
  for (const Source& source : corpus.cut_sources) on_disk += source.size();
  const auto share_of = [&](std::uint64_t most, const Source& source) {
    return static_cast<std::uint64_t>(static_cast<double>(most) * static_cast<double>(source.size()) /
                                      static_cast<double>(on_disk));
  };
  TextSample sample;
  std::vector<Front> fronts;
  for (const Source& source : corpus.cut_sources) {
    const bool is_open = lies_open(source);
    fronts.push_back(read_front(corpus, source, is_open ? 0 : share_of(most_training, source),
                                share_of(is_open ? most_checked : most_counted, source)));
    const Front& front = fronts.back();
    sample.bytes += is_open ? source.size() : front.bytes;
    if (!is_open && front.is_estimated) sample.is_estimated = true;
    if (sample.not_utf8.empty()) sample.not_utf8 = front.not_utf8;
  }
  if (sample.bytes < least_bytes) {
    throw Error::input(str(names_of(config.source), ": ", format_count(sample.bytes),
                           " bytes of text are too few to learn from: take a text of at least ",
                           format_count(least_bytes)));
  }
  sample.val_fraction =
      std::min(0.1, two_digits(static_cast<double>(most_held_out) / static_cast<double>(sample.bytes)));
  for (std::size_t i = 0; i < fronts.size(); ++i) {
    const Source& source = corpus.cut_sources[i];
    if (!lies_open(source)) {
      append_front(fronts[i].text, sample);
      continue;
    }
    const std::size_t training = sample.training.size(), held_out = sample.held_out.size();
    const auto cut = static_cast<std::uint64_t>((1.0 - sample.val_fraction) * static_cast<double>(source.size()));
    const JoinedFiles files(source);
    files.append_spread(0, cut, share_of(most_training, source), sample.training);
    files.append_spread(cut, source.size(), share_of(most_held_out, source), sample.held_out);
    if (sample.not_utf8.empty() && (find_invalid_utf8(std::string_view(sample.training).substr(training)) ||
                                    find_invalid_utf8(std::string_view(sample.held_out).substr(held_out)))) {
      sample.not_utf8 = source.name;
    }
  }
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
