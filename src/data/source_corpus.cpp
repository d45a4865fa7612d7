#include "data/source_corpus.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "data/grammar.h"

namespace inkling {

namespace {

bool is_one_document(const SourceFile& file) { return file.kind == FileKind::text || file.kind == FileKind::raw; }

bool is_single_text(const std::vector<Source>& sources) {
  return sources.size() == 1 && sources[0].files.size() == 1 && is_one_document(sources[0].files[0]);
}

// Refuses token files and grammars among text, as they would be read as text.
void refuse_mixture(const std::vector<Source>& sources) {
  for (const Source& source : sources) {
    for (const SourceFile& file : source.files) {
      if (file.kind != FileKind::tokens && file.kind != FileKind::grammar) continue;
      if (file.compression != Compression::none) {
        throw Error::input(
            str("data.source: ", file.path.string(), " is compressed, and only text is read so: decompress it"));
      }
      const bool tokens = file.kind == FileKind::tokens;
      throw Error::input(
          str("data.source: ", file.path.string(), tokens ? " holds tokens" : " is a grammar",
              ", which does not go together with text: ",
              tokens ? "name token files alone, one by one, with data.vocab_size" : "name it alone, by its own path"));
    }
  }
}

void warn_of_overlap(const std::vector<Source>& sources, const std::vector<Source>& validation) {
  std::vector<std::string> trained;
  for (const Source& source : sources) {
    for (const SourceFile& file : source.files) trained.push_back(file.path.lexically_normal().string());
  }
  std::sort(trained.begin(), trained.end());
  for (const Source& source : validation) {
    for (const SourceFile& file : source.files) {
      const std::string path = file.path.lexically_normal().string();
      if (!std::binary_search(trained.begin(), trained.end(), path)) continue;
      log_warning(str(path,
                      " is in data.source and in data.validation_source: the validation loss will look better "
                      "than it is"));
      return;
    }
  }
}

void append(std::vector<PlannedFile>& plan, std::vector<PlannedFile> more) {
  plan.insert(plan.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void examine_text(const DataConfig& config, Corpus& corpus) {
  const bool any_encoding = config.tokenizer.kind == TokenizerKind::byte;
  std::vector<Source> sources = list_sources(config.source, {"data.source", config.raw, any_encoding});
  const std::vector<Source> validation =
      list_sources(config.validation_source, {"data.validation_source", config.raw, any_encoding});
  refuse_mixture(sources);
  refuse_mixture(validation);
  warn_of_overlap(sources, validation);
  corpus.several_documents =
      config.separator || !is_single_text(sources) || !(validation.empty() || is_single_text(validation));
  corpus.files = plan_whole(sources, Split::train);
  append(corpus.files, plan_whole(validation, Split::validation));
  if (validation.empty()) {
    corpus.cut_sources = std::move(sources);
    corpus.val_fraction = config.val_fraction;
  }
}

void examine_grammar(const DataConfig& config, Corpus& corpus) {
  corpus.files = plan_whole(list_sources(config.source, {"data.source"}), Split::train);
  corpus.several_documents = true;
  corpus.stories = config.stories;
  corpus.grammar_seed = config.grammar_seed;
  corpus.training_stories =
      static_cast<std::uint64_t>((1.0 - config.val_fraction) * static_cast<double>(config.stories));
}

// llm.c and modded-nanogpt name their shards …_train_000001.bin and …_val_000000.bin.
bool is_named_validation(const SourceFile& file) {
  return file.path.filename().string().find("val") != std::string::npos;
}

void examine_tokens(const DataConfig& config, Corpus& corpus) {
  if (config.headerless) corpus.layout = TokenLayout::headerless;
  corpus.files = plan_whole(list_sources(config.source, {"data.source"}), Split::train);
  if (config.validation_source.empty()) {
    for (PlannedFile& planned : corpus.files) {
      if (is_named_validation(planned.file)) planned.train_bytes = 0;
    }
  } else {
    append(corpus.files,
           plan_whole(list_sources(config.validation_source, {"data.validation_source"}), Split::validation));
  }
  std::size_t training = 0;
  for (const PlannedFile& planned : corpus.files) {
    if (planned.file.kind != FileKind::tokens) {
      throw Error::input(str(planned.file.path.string(), " does not go together with token files: name *.bin alone"));
    }
    if (planned.train_bytes > 0) ++training;
  }
  if (training == 0 || training == corpus.files.size()) {
    throw Error::input(
        str("data.source: no token file is for ", training == 0 ? "training" : "validation",
            ": those with \"val\" in their name are for validation, or data.validation_source names them"));
  }
}

std::string visit_stories(const Corpus& corpus, const TextVisitor& visitor) {
  const fs::path& path = corpus.files.front().file.path;
  const std::string hash = hash_file(path);
  const Grammar grammar = Grammar::load(path);
  for (std::uint64_t index = 0; index < corpus.stories; ++index) {
    const Split split = index < corpus.training_stories ? Split::train : Split::validation;
    visit_text(split, grammar.expand(corpus.grammar_seed, index).text, {&path, 0}, visitor);
    visitor.advance(1);
  }
  return hash;
}

void refuse_changed(const SourceFile& file) {
  if (examine_file(file.path).stamp == file.stamp) return;
  throw Error::input(str(file.path.string(), " has changed while it was read: run again when nothing writes to it"));
}

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

bool Corpus::has_json() const {
  return std::any_of(files.begin(), files.end(), [](const PlannedFile& planned) {
    return planned.file.kind == FileKind::jsonl || planned.file.kind == FileKind::json;
  });
}

Corpus examine_corpus(const DataConfig& config) {
  Corpus corpus;
  corpus.kind = source_kind(config);
  corpus.jsonl_field = config.jsonl_field;
  corpus.separator = config.separator.value_or("");
  if (corpus.kind == SourceKind::text) examine_text(config, corpus);
  if (corpus.kind == SourceKind::grammar) examine_grammar(config, corpus);
  if (corpus.kind == SourceKind::token_files) examine_tokens(config, corpus);
  return corpus;
}

void cut_tails(Corpus& corpus) {
  if (!corpus.cut_sources.empty()) corpus.files = plan_tail(corpus.cut_sources, corpus.val_fraction, corpus.separator);
}

std::vector<std::string> visit_corpus(const Corpus& corpus, const TextVisitor& visitor, const std::string& label) {
  const bool stories = corpus.kind == SourceKind::grammar;
  std::uint64_t total = corpus.stories, done = 0;
  if (!stories) {
    for (const PlannedFile& planned : corpus.files) total += planned.file.stamp.size;
  }
  Progress progress(label, total, stories ? "stories" : "B");
  TextVisitor watched = visitor;
  watched.separator = corpus.separator;
  watched.advance = [&](std::uint64_t more) {
    progress.update(done += more);
    leave_if_stopped();
  };

  std::vector<std::string> hashes;
  for (const PlannedFile& planned : corpus.files) {
    hashes.push_back(stories ? visit_stories(corpus, watched) : visit_file(planned, corpus.jsonl_field, watched));
    refuse_changed(planned.file);
  }
  return hashes;
}

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
