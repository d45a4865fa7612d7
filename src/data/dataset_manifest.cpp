#include "data/dataset_manifest.h"

#include <array>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/strings.h"
#include "formats/json_fields.h"
#include "formats/token_file.h"

namespace inkling {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view format_mark = "inkling-dataset";
constexpr int format_version = 1;
constexpr std::int64_t most_of_anything = std::numeric_limits<std::int64_t>::max();  // tokens, bytes, documents, ns

std::string utf8_name(const fs::path& path) {
  std::string name = path.string();
  while (const auto bad = find_invalid_utf8(name)) name[*bad] = '?';
  return name;
}

Json split_to_json(const SplitSummary& split, const fs::path& folder) {
  Json shards = Json::array();
  for (const fs::path& shard : split.shards) {
    shards.push_back(utf8_name(shard.parent_path() == folder ? shard.filename() : shard));
  }
  return Json{{"tokens", split.tokens},   {"bytes", split.bytes}, {"documents", split.documents},
              {"ends_at", split.ends_at}, {"hash", split.hash},   {"shards", shards}};
}

SplitSummary split_from(const JsonFields& json, const fs::path& folder) {
  SplitSummary split;
  split.tokens = json.count("tokens", most_of_anything);
  split.bytes = json.count("bytes", most_of_anything);
  split.documents = json.count("documents", most_of_anything);
  split.ends_at = json.text("ends_at");
  split.hash = json.text("hash");
  for (const std::string& shard : json.texts("shards")) split.shards.push_back(folder / shard);
  return split;
}

Json source_to_json(const RecordedSource& source) {
  return Json{{"path", source.path},
              {"size", source.size},
              {"mtime_ns", source.mtime_ns},
              {"inode", source.inode},
              {"hash", source.hash}};
}

RecordedSource source_from(const JsonFields& json) {
  RecordedSource source;
  source.path = json.text("path");
  source.size = json.count("size", most_of_anything);
  source.mtime_ns = json.whole("mtime_ns", std::numeric_limits<std::int64_t>::min(), most_of_anything);
  source.inode = json.count("inode", std::numeric_limits<std::uint64_t>::max());
  source.hash = json.text("hash");
  return source;
}

Manifest manifest_from(const JsonFields& json, const fs::path& folder) {
  Manifest manifest;
  manifest.settings = json.named_texts("settings");
  for (const JsonFields& source : json.sections("sources")) manifest.sources.push_back(source_from(source));
  manifest.tokenizer_hash = json.text("tokenizer_hash");
  manifest.vocab_size = static_cast<std::uint64_t>(json.whole("vocab_size", 1, std::numeric_limits<Token>::max()));
  manifest.train = split_from(json.section("train"), folder);
  manifest.validation = split_from(json.section("validation"), folder);
  manifest.has_bound = json.flag("validation_bound");
  if (json.text("hash") != manifest.hash()) json.refuse("its hashes disagree");
  return manifest;
}

}  // namespace

RecordedSource::RecordedSource(const SourceFile& file, std::string content_hash)
    : path(utf8_name(file.path)),
      size(file.size),
      mtime_ns(file.mtime_ns),
      inode(file.inode),
      hash(std::move(content_hash)) {}

std::string Manifest::hash() const {
  return hash_text(str(train.hash, "\n", validation.hash, "\n", tokenizer_hash, "\n", vocab_size, "\n"));
}

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  Json sources = Json::array();
  for (const RecordedSource& source : manifest.sources) sources.push_back(source_to_json(source));
  const Json json{{"format", format_mark},
                  {"version", format_version},
                  {"settings", manifest.settings},
                  {"vocab_size", manifest.vocab_size},
                  {"tokenizer_hash", manifest.tokenizer_hash},
                  {"train", split_to_json(manifest.train, folder)},
                  {"validation", split_to_json(manifest.validation, folder)},
                  {"validation_bound", manifest.has_bound},
                  {"hash", manifest.hash()},
                  {"sources", sources}};
  write_file(folder / manifest_name, json.dump(2) + "\n");
}

Manifest read_manifest(const fs::path& folder) {
  const JsonFields json(folder / manifest_name, "inkling-prepare makes it anew");
  if (json.text("format") != format_mark) json.refuse("it describes something else");
  const std::int64_t version = json.whole("version", 1, most_of_anything);
  if (version != format_version) {
    json.refuse(str("it is of version ", version, ", and this program knows version ", format_version));
  }
  return manifest_from(json, folder);
}

bool is_dataset_folder(const fs::path& folder) {
  std::error_code code;
  const fs::path path = folder / manifest_name;
  if (!fs::is_regular_file(path, code)) return false;
  std::array<char, 256> front;  // the mark is the first entry
  const std::size_t count = InputFile(path).read_some(0, std::as_writable_bytes(std::span(front)));
  return std::string_view(front.data(), count).find(format_mark) != std::string_view::npos;
}

}  // namespace inkling
