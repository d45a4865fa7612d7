#include "data/dataset.h"

#include <unistd.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/disk_room.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "base/thread_choice.h"
#include "data/dataset_manifest.h"
#include "data/dataset_parts.h"
#include "data/grammar.h"
#include "data/source_corpus.h"
#include "data/validation_bound.h"
#include "text/build_tokenizer.h"

namespace inkling {

namespace {

// What has to be prepared, and where.
struct Job {
  const DataConfig& config;
  const PrepareOptions& options;
  Corpus corpus;
  std::map<std::string, std::string> settings;
  fs::path folder;
};

// dataset.json lists every file and is read as a small file, so a list that could not be read again is refused before
// it is made.
void refuse_too_many(const Corpus& corpus) {
  constexpr std::size_t bytes_beside_a_path = 200;
  std::size_t bytes = 0;
  for (const PlannedFile& planned : corpus.files) bytes += planned.file.path.native().size() + bytes_beside_a_path;
  if (bytes <= largest_small_file) return;
  throw Error::input(str("data.source: ", format_count(corpus.files.size()), " files are too many to be listed in ",
                         manifest_name, "; join them, for example in a .jsonl file with the text of one on each line"));
}

void refuse_single_document(const DataConfig& config, const Corpus& corpus) {
  if (!config.keeps_documents_apart() || corpus.kind != SourceKind::text || corpus.several_documents) return;
  throw Error::input(str("data.documents is ", word_of(config.documents),
                         ", and data.source is a single text, which is one document: use data.documents: join, or give "
                         "several files or a .jsonl"));
}

Job examine(const DataConfig& config, const PrepareOptions& options) {
  Corpus corpus = examine_corpus(config);
  refuse_too_many(corpus);
  refuse_single_document(config, corpus);
  auto settings = deciding_settings(config, corpus, options.named);
  fs::path folder = choose_folder(config, settings);
  return {config, options, std::move(corpus), std::move(settings), std::move(folder)};
}

void refuse_short(const SplitSummary& split, std::string_view name, const PrepareOptions& options) {
  const auto block_size = static_cast<std::uint64_t>(options.block_size);
  if (options.block_size <= 0 || split.tokens > block_size) return;
  throw Error::input(
      str(split.ends_at.empty() ? "data.source" : split.ends_at, ": the text for ", name, " ends after ",
          format_count(split.tokens), " tokens, and one window takes ", format_count(block_size + 1),
          " (model.block_size + 1): use more text",
          split.tokens > 2 ? str(" or a model.block_size of at most ", split.tokens - 1) : std::string()));
}

// Refuses a data set that is too short, or not what the caller wants.
void check_use(const Dataset& dataset, const PrepareOptions& options) {
  refuse_short(dataset.train, "training", options);
  refuse_short(dataset.validation, "validation", options);
  options.check_hash(dataset.hash);
}

void write_bound(const Job& job, const Tokenizer& tokenizer, const fs::path& folder) {
  const Corpus& corpus = job.corpus;
  const Grammar grammar = Grammar::load(corpus.files.front().file.path);
  write_validation_bound(folder / bound_name, compute_bound(grammar, tokenizer, corpus.grammar_seed,
                                                            corpus.training_stories, corpus.stories));
}

std::vector<SourceFile> sources_of(const Job& job) {
  std::vector<SourceFile> sources;
  for (const PlannedFile& planned : job.corpus.files) sources.push_back(planned.file);
  return sources;
}

// Puts the new data set in the place of the older one, if that still holds nothing else: the work may have taken hours.
// Only a folder that has a dataset.json is replaced, because one without it cannot be told from one that was never
// finished.
void commit(OutputFolder& fresh, const Job& job) {
  ::rmdir(job.folder.c_str());  // if it is empty
  if (!fs::exists(job.folder)) return fresh.commit();
  refuse_foreign_files(job.folder, sources_of(job));
  fresh.replace();
}

EncodingOptions encoding_options(const Job& job, const fs::path& folder) {
  std::size_t threads = job.options.threads;
  if (threads == 0) threads = static_cast<std::size_t>(choose_threads(ThreadUse::texts, find_thread_limits()).threads);
  return {folder, job.options.max_shard_tokens, threads};
}

// About how many bytes the shards will take, before anything is encoded; 0 where that is not known. Learned tokens
// hold some three bytes of text, and .gz and .zst of text a third of it or less.
std::uint64_t expected_bytes(const Job& job) {
  if (job.corpus.kind != SourceKind::text) return 0;
  std::uint64_t text = 0;
  for (const PlannedFile& planned : job.corpus.files) {
    text += planned.file.stamp.size * (planned.file.compression == Compression::none ? 1 : 3);
  }
  const TokenizerConfig& tokenizer = job.config.tokenizer;
  const bool is_small = tokenizer.kind == TokenizerKind::byte || tokenizer.kind == TokenizerKind::character;
  const auto width = static_cast<std::uint64_t>(token_width_for(is_small || tokenizer.from ? 0 : tokenizer.vocab_size));
  return (is_small ? text : text / 3) * width;
}

void build(Job& job) {
  cut_tails(job.corpus);
  const std::string lack = describe_lack_of_room(job.folder, expected_bytes(job));
  if (!lack.empty()) log_warning(lack);
  OutputFolder fresh(job.folder, remove_written);
  const fs::path& folder = fresh.temporary();
  Manifest manifest;
  if (job.corpus.kind == SourceKind::token_files) {
    manifest = check_token_files(job.corpus, job.config.vocab_size);
  } else {
    const auto tokenizer = build_tokenizer(job.config.tokenizer, job.corpus);
    tokenizer->save(folder);
    manifest = encode_corpus(job.corpus, *tokenizer, encoding_options(job, folder));
    manifest.has_bound = job.corpus.kind == SourceKind::grammar;
    if (manifest.has_bound) write_bound(job, *tokenizer, folder);
  }
  check_use(dataset_of(job.folder, manifest), job.options);
  manifest.settings = job.settings;
  manifest.written = record_written(folder);
  write_manifest(folder, manifest);
  commit(fresh, job);
}

// Everything build() would do that can be done without writing or training a vocabulary.
Dataset dry_run(Job& job) {
  cut_tails(job.corpus);
  Manifest manifest;
  std::unique_ptr<Tokenizer> tokenizer;
  if (job.corpus.kind == SourceKind::token_files) {
    manifest = check_token_files(job.corpus, job.config.vocab_size);
  } else if (tokenizer_learns(job.config.tokenizer)) {
    check_text(job.corpus);
    Dataset dataset;
    dataset.folder = job.folder;
    dataset.vocab_size = job.config.tokenizer.vocab_size;
    dataset.bytes_to_write = expected_bytes(job);
    return dataset;
  } else {
    tokenizer = build_tokenizer(job.config.tokenizer, job.corpus);
    manifest = encode_corpus(job.corpus, *tokenizer, encoding_options(job, {}));
  }
  Dataset dataset = dataset_of(job.folder, manifest);
  dataset.tokenizer = std::move(tokenizer);
  check_use(dataset, job.options);
  if (job.corpus.kind != SourceKind::token_files) {
    const auto width = static_cast<std::uint64_t>(token_width_for(dataset.vocab_size));
    dataset.bytes_to_write = (dataset.train.tokens + dataset.validation.tokens) * width;
  }
  return dataset;
}

Reuse find_existing(const Job& job) {
  return try_reuse(job.folder, job.corpus, job.settings,
                   {.verify = job.options.verify, .record = !job.options.dry_run});
}

void say_why(const Job& job, const std::string& reason) {
  const std::string_view verb = job.options.dry_run ? "would prepare " : "preparing ";
  if (reason.empty()) {
    log_info(str(verb, job.folder.string()));
  } else {
    log_info(str(job.folder.string(), " is out of date: ", reason, "; ", verb, "it again"));
  }
}

Dataset accept_existing(const Job& job, Reuse reuse) {
  check_use(*reuse.dataset, job.options);
  return std::move(*reuse.dataset);
}

}  // namespace

Dataset prepare_dataset(const DataConfig& config, const PrepareOptions& options) {
  Job job = examine(config, options);
  if (!options.dry_run) {
    restore_replaced(job.folder);
    remove_abandoned(job.folder / manifest_name);
  }
  Reuse found = find_existing(job);
  if (found.dataset) return accept_existing(job, std::move(found));
  refuse_foreign_files(job.folder, sources_of(job));
  if (options.dry_run) {
    say_why(job, found.reason);
    return dry_run(job);
  }
  if (job.folder.has_parent_path()) create_folders(job.folder.parent_path());
  const FolderLock lock(job.folder);
  found = find_existing(job);  // another process may have made it while we waited
  if (found.dataset) return accept_existing(job, std::move(found));
  say_why(job, found.reason);
  const StopInOrder in_order;  // so that nothing half made is left
  if (lock.held()) remove_leftovers(job.folder);
  build(job);
  leave_if_stopped();
  return open_dataset(job.folder);
}

std::string describe_lack_of_room(const fs::path& folder, std::uint64_t bytes) {
  const ToWrite shards[] = {{.what = "token files", .bytes = bytes, .disk = disk_space(folder)}};
  const std::string lack = describe_lack_of_room(shards);
  return lack.empty() ? "" : str("not enough room: ", lack, "; name a folder on another disk with data.dir");
}

Dataset open_dataset(const fs::path& folder) {
  restore_replaced(folder);
  const SourceFile as_read = examine_file(folder / manifest_name);
  Manifest manifest = read_manifest(folder);
  if (check_written(folder, manifest, false)) record_again(folder, manifest, as_read);
  return open_recorded(folder, manifest);
}

}  // namespace inkling
