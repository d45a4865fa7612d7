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

struct Enough {};  // thrown where a reader has given what was wanted

// The files of a text, one behind the other, read at any place.
class JoinedFiles {
 public:
  explicit JoinedFiles(const std::vector<PlannedFile>& files) : files_(files) {}

  // Appends [begin, end) of the text to `sample`, without half characters at its ends.
  void append(std::uint64_t begin, std::uint64_t end, std::string& sample) const {
    std::string piece;
    std::uint64_t start = 0;  // of this file in the text
    for (const PlannedFile& planned : files_) {
      const std::uint64_t size = planned.file.stamp.size;
      const std::uint64_t from = std::max(begin, start), to = std::min(end, start + size);
      if (from < to) {
        const std::size_t before = piece.size();
        piece.resize(before + (to - from));
        InputFile(planned.file.path)
            .read_exactly(from - start, std::as_writable_bytes(std::span(piece).subspan(before)));
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
    const std::uint64_t pieces = most / piece_bytes, room = end - begin - piece_bytes;
    for (std::uint64_t i = 0; i < pieces; ++i) {
      // In floating point, as the product may not fit into 64 bits; the last piece ends where the text does.
      const auto at = static_cast<std::uint64_t>(static_cast<double>(room) * static_cast<double>(i) /
                                                 static_cast<double>(pieces - 1));
      append(begin + at, begin + at + piece_bytes, sample);
    }
  }

 private:
  const std::vector<PlannedFile>& files_;
};

bool lies_open(const PlannedFile& planned) {
  const FileKind kind = planned.file.kind;
  return planned.file.compression == Compression::none && (kind == FileKind::text || kind == FileKind::raw);
}

// The first `most` bytes of texts that have to be read from their front.
std::string read_front(const Corpus& corpus, std::uint64_t most) {
  std::string front;
  const TextVisitor visitor = {
      .part_length = [](std::string_view text, bool more) { return next_lines_length(text, more); },
      .part =
          [&](const PartOfText& part) {
            leave_if_stopped();
            front += part.text;
            if (front.size() >= most) throw Enough();
          },
      .end_document = [](Split, const Place&) {},
      .advance = [](std::uint64_t) {},
      .lone_surrogates = [](const Place&, std::size_t) {}};
  try {
    for (const PlannedFile& planned : corpus.files) visit_file(planned, corpus.jsonl_field, visitor);
  } catch (const Enough&) {
  }
  return front;
}

}  // namespace

TextSample sample_text(const DataConfig& config) {
  DataConfig any = config;
  any.tokenizer.kind = TokenizerKind::byte;  // which takes any encoding: what tokenizer suits is to be found out
  const Corpus corpus = examine_corpus(any);
  if (corpus.kind != SourceKind::text) {
    throw Error::input(str(corpus.files.front().file.path.string(),
                           " is no text: a recipe is for text alone; write a configuration for it"));
  }
  TextSample sample;
  for (const PlannedFile& planned : corpus.files) sample.bytes += planned.file.stamp.size;
  if (sample.bytes < least_bytes) {
    throw Error::input(str(config.source.front(), " holds ", format_count(sample.bytes),
                           " bytes, too few to learn from: take a text of at least ", format_count(least_bytes)));
  }
  sample.val_fraction = std::min(0.1, two_digits(static_cast<double>(most_tail) / static_cast<double>(sample.bytes)));
  if (std::all_of(corpus.files.begin(), corpus.files.end(), lies_open)) {
    const auto cut = static_cast<std::uint64_t>((1.0 - sample.val_fraction) * static_cast<double>(sample.bytes));
    const JoinedFiles files(corpus.files);
    files.append_spread(0, cut, most_training, sample.training);
    files.append_spread(cut, sample.bytes, most_held_out, sample.held_out);
  } else {
    sample.training = read_front(corpus, most_training);
    const std::size_t cut =
        character_start(sample.training, sample.training.size() - std::min(sample.training.size() / 10, most_held_out));
    sample.held_out = sample.training.substr(cut);
    sample.training.resize(cut);
  }
  sample.is_utf8 = !find_invalid_utf8(sample.training) && !find_invalid_utf8(sample.held_out);
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
  } catch (const Error&) {
    if (!sample.is_utf8 || !tokenizer_learns(config)) throw;
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
