#include "data/dataset_parts.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "config/config.h"
#include "formats/token_file.h"
#include "text/build_tokenizer.h"

namespace inkling {

namespace {

// This counts up when older data sets must be made again. It does not where new ones merely come out differently, as
// sentencepiece's did when it began to learn from 16 MiB of text instead of 64: runs that were trained on the older
// ones could not go on.
constexpr std::string_view encoding_version = "1";

// Whether older versions, which told kinds by endings in lower case and knew no .json, read it as something else.
bool was_read_otherwise(const SourceFile& file) {
  if (file.compression != Compression::none && file.path.extension() != ending_of(file.path)) return true;
  return file.kind == FileKind::json ||
         (file.kind == FileKind::jsonl && decompressed_name(file.path).extension() != ".jsonl");
}

std::string list_text(const std::vector<std::string>& entries) {
  std::vector<std::string> words;
  for (const std::string& entry : entries) words.push_back(quote(entry));
  return str("[", join(words, ", "), "]");
}

// Turns "Shakespeare's works.txt" into "Shakespeare-s-works", which a shell takes without quotes.
std::string readable_name(const fs::path& source) {
  const fs::path path = source.lexically_normal();
  std::string name;
  for (const char c : decompressed_name(without_slash(path)).stem().string()) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (plain) name += c;
    if (!plain && !name.empty() && name.back() != '-') name += '-';
  }
  name.resize(std::min<std::size_t>(name.size(), 40));
  while (name.ends_with('-')) name.pop_back();
  return name.empty() ? "text" : name;
}

std::string changed_setting(const std::map<std::string, std::string>& before,
                            const std::map<std::string, std::string>& now) {
  for (const auto& [key, value] : now) {
    const auto found = before.find(key);
    if (found == before.end()) return str(key, " is new");
    if (found->second != value) return str(key, " was ", found->second, " and is now ", value);
  }
  for (const auto& [key, value] : before) {
    if (!now.contains(key)) return str(key, " no longer applies");
  }
  return "";
}

// The hash that the manifest records for a source, computed again.
std::string hash_source(const SourceFile& file, TokenLayout layout) {
  return file.kind == FileKind::tokens ? hash_tokens({file.path}, layout) : hash_file(file.path, leave_if_stopped);
}

// Returns why the sources are not what the manifest records; updates the manifest (and sets `refreshed`) where a file
// has been touched or copied without a change.
std::string changed_source(Manifest& manifest, const Corpus& corpus, bool verify, bool& refreshed) {
  for (std::size_t i = 0; i < corpus.files.size(); ++i) {
    const SourceFile& file = corpus.files[i].file;
    if (i >= manifest.sources.size()) return str(file.path.string(), " is new");
    RecordedFile& recorded = manifest.sources[i];
    RecordedFile current(file, recorded.hash);
    if (current.path != recorded.path) return str(recorded.path, " is followed or replaced by ", current.path);
    if (!verify && recorded.stamp == file.stamp) continue;
    const bool same_size = file.stamp.size == recorded.stamp.size;
    if (!same_size || hash_source(file, corpus.layout) != recorded.hash) return str(current.path, " has changed");
    refreshed = refreshed || recorded.stamp != file.stamp;
    recorded = current;
  }
  if (manifest.sources.size() > corpus.files.size()) {
    return str(manifest.sources[corpus.files.size()].path, " is gone");
  }
  return "";
}

// Throws Error input if the shards, which may belong to others, are not what the manifest records.
void check_shards(const SplitSummary& split, std::uint64_t vocab_size, const fs::path& folder) {
  if (TokenSequence(split.shards, vocab_size, split.layout).count() == split.tokens) return;
  throw Error::input(str("the token files of ", folder.string(), " do not hold as many tokens as its ", manifest_name,
                         " records; inkling-prepare makes them again"));
}

}  // namespace

std::map<std::string, std::string> deciding_settings(const DataConfig& config, const Corpus& corpus,
                                                     const Tokenizer* named) {
  std::map<std::string, std::string> settings;
  settings["encoding_version"] = encoding_version;
  settings["data.source"] = list_text(config.source);
  settings["data.validation_source"] = list_text(config.validation_source);
  if (std::any_of(corpus.files.begin(), corpus.files.end(),
                  [](const PlannedFile& planned) { return was_read_otherwise(planned.file); })) {
    settings["reading_version"] = "2";
  }
  if (corpus.kind == SourceKind::token_files) {
    settings["data.vocab_size"] = str(config.vocab_size);
    if (config.headerless) settings["data.headerless"] = "true";  // older data sets have no such line
    return settings;
  }
  if (config.validation_source.empty()) settings["data.val_fraction"] = format_shortest(config.val_fraction);
  if (config.separator) settings["data.separator"] = quote(*config.separator);  // older data sets have no such line
  if (corpus.has_json()) settings["data.jsonl_field"] = config.jsonl_field;
  if (config.raw) settings["data.raw"] = "true";  // older data sets have no such line
  if (corpus.kind == SourceKind::grammar) {
    settings["data.stories"] = str(config.stories);
    settings["data.grammar_seed"] = str(config.grammar_seed);
  }
  settings["data.tokenizer.kind"] = word_of(config.tokenizer.kind);
  if (config.tokenizer.pattern) settings["data.tokenizer.pattern"] = word_of(*config.tokenizer.pattern);
  if (config.tokenizer.from) {
    settings["data.tokenizer.from"] = named != nullptr ? named->hash() : identify_tokenizer_source(config.tokenizer);
  }
  if (!tokenizer_learns(config.tokenizer)) return settings;
  settings["data.tokenizer.vocab_size"] = str(config.tokenizer.vocab_size);
  if (config.tokenizer.kind == TokenizerKind::sentencepiece) {
    settings["data.tokenizer.model_type"] = word_of(config.tokenizer.model_type);
    settings["data.tokenizer.character_coverage"] = format_shortest(config.tokenizer.character_coverage);
  }
  return settings;
}

fs::path choose_folder(const DataConfig& config, const std::map<std::string, std::string>& settings) {
  if (config.dir) {
    const fs::path folder = without_slash(fs::path(*config.dir).lexically_normal());
    return fs::is_symlink(folder) && fs::exists(folder) ? fs::canonical(folder) : folder;  // a link stays a link
  }
  Hasher hasher;
  for (const auto& [key, value] : settings) hasher.update(str(key, "=", value, "\n"));
  const auto kind = settings.find("data.tokenizer.kind");
  return fs::path("data") / str(readable_name(config.source.front()), "-",
                                kind == settings.end() ? "tokens" : kind->second, "-", hasher.hex().substr(0, 8));
}

Reuse try_reuse(const fs::path& folder, const Corpus& corpus, const std::map<std::string, std::string>& settings,
                const ReuseOptions& options) {
  if (!is_dataset_folder(folder)) return {};
  try {
    const SourceFile as_read = examine_file(folder / manifest_name);
    Manifest manifest = read_manifest(folder);
    if (std::string reason = changed_setting(manifest.settings, settings); !reason.empty()) return {{}, reason};
    bool refreshed = false;
    std::string reason = changed_source(manifest, corpus, options.verify, refreshed);
    if (!reason.empty()) return {{}, reason};
    refreshed = check_written(folder, manifest, options.verify) || refreshed;
    if (refreshed && options.record) record_again(folder, manifest, as_read);
    return {open_recorded(folder, manifest), ""};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;  // what cannot be read now need not be wrong
    return {{}, error.message()};
  }
}

Dataset open_recorded(const fs::path& folder, const Manifest& manifest) {
  Dataset dataset = dataset_of(folder, manifest);
  if (!manifest.tokenizer_hash.empty()) {
    dataset.tokenizer = load_tokenizer(folder);
    if (dataset.tokenizer->hash() != manifest.tokenizer_hash) {
      throw Error::input(str("the tokenizer in ", folder.string(),
                             " is not the one its token files were made with; "
                             "inkling-prepare makes both again"));
    }
    if (dataset.tokenizer->vocab_size() != manifest.vocab_size) {
      throw Error::input(str("the tokenizer in ", folder.string(), " has ", dataset.tokenizer->vocab_size(),
                             " tokens, and its ", manifest_name, " says ", manifest.vocab_size));
    }
  }
  check_shards(manifest.train, manifest.vocab_size, folder);
  check_shards(manifest.validation, manifest.vocab_size, folder);
  if (manifest.has_bound) dataset.bound_file = folder / bound_name;
  return dataset;
}

void record_again(const fs::path& folder, const Manifest& manifest, const SourceFile& as_read) {
  try {
    if (examine_file(folder / manifest_name).stamp == as_read.stamp) write_manifest(folder, manifest);
  } catch (const Error&) {
    // The hashes are computed again next time.
  }
}

}  // namespace inkling
