#include "data/dataset_manifest.h"

#include <array>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/paths.h"
#include "base/strings.h"
#include "formats/json.h"
#include "formats/token_file.h"

namespace inkling {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view format_mark = "inkling-dataset";
constexpr int format_version = 2;

std::string utf8_name(const fs::path& path) {
  std::string name = path.string();
  while (const auto bad = find_invalid_utf8(name)) name[*bad] = '?';
  return name;
}

Json split_to_json(const SplitSummary& split, const fs::path& folder) {
  Json shards = Json::array();
  for (const fs::path& shard : split.shards) {
    shards.push_back(utf8_name(is_inside(shard, folder) ? shard.filename() : shard));
  }
  return Json{
      {"tokens", split.tokens},   {"bytes", split.bytes}, {"documents", split.documents},
      {"ends_at", split.ends_at}, {"hash", split.hash},   {"headerless", split.layout == TokenLayout::headerless},
      {"shards", shards}};
}

SplitSummary split_from(const JsonFields& json, const fs::path& folder) {
  SplitSummary split;
  split.tokens = json.count("tokens");
  split.bytes = json.count("bytes");
  split.documents = json.count("documents");
  split.ends_at = json.text("ends_at");
  split.hash = json.text("hash");
  if (json.optional_flag("headerless").value_or(false)) split.layout = TokenLayout::headerless;
  for (const std::string& shard : json.texts("shards")) split.shards.push_back(folder / shard);
  return split;
}

// `key`: "path" for sources, "name" for what was written.
Json files_to_json(const std::vector<RecordedFile>& files, const char* key) {
  Json list = Json::array();
  for (const RecordedFile& file : files) {
    list.push_back({{key, file.path},
                    {"size", file.stamp.size},
                    {"mtime_ns", file.stamp.mtime_ns},
                    {"inode", file.stamp.inode},
                    {"hash", file.hash}});
  }
  return list;
}

std::vector<RecordedFile> files_from(const std::vector<JsonFields>& list, const char* key) {
  std::vector<RecordedFile> files;
  for (const JsonFields& json : list) {
    RecordedFile& file = files.emplace_back();
    file.path = json.text(key);
    file.stamp.size = json.count("size");
    file.stamp.mtime_ns = json.whole("mtime_ns", INT64_MIN);
    file.stamp.inode = json.count("inode", UINT64_MAX);
    file.hash = json.text("hash");
  }
  return files;
}

// A file that is listed as written may be removed one day, so only a file of the folder itself can be listed; and every
// file that belongs to the data must be.
void check_written_names(const JsonFields& json, const Manifest& manifest, const fs::path& folder) {
  std::set<std::string> names;
  for (const RecordedFile& file : *manifest.written) {
    if (!is_file_name(file.path) || file.path == manifest_name) {
      json.refuse(
          str("it lists ", quote(file.path), " as written, which is not a name that a file of the folder can have"));
    }
    names.insert(file.path);
  }
  for (const SplitSummary* split : {&manifest.train, &manifest.validation}) {
    for (const fs::path& shard : split->shards) {
      if (is_inside(shard, folder) && !names.contains(shard.filename().string())) {
        json.refuse(str("it does not list ", shard.filename().string(), " as written"));
      }
    }
  }
}

Manifest manifest_from(const JsonFields& json, const fs::path& folder) {
  Manifest manifest;
  manifest.settings = json.named_texts("settings");
  manifest.sources = files_from(json.sections("sources"), "path");
  manifest.tokenizer_hash = json.text("tokenizer_hash");
  manifest.vocab_size = static_cast<std::uint64_t>(json.whole("vocab_size", 1, std::numeric_limits<Token>::max()));
  manifest.train = split_from(json.section("train"), folder);
  manifest.validation = split_from(json.section("validation"), folder);
  manifest.has_bound = json.flag("validation_bound");
  if (json.whole("version", 1, format_version) != 1) {
    manifest.written = files_from(json.sections("written"), "name");
    check_written_names(json, manifest, folder);
  } else if (json.has("written")) {
    json.refuse("it is of version 1, which has no list of written files, and has one");
  }
  if (json.text("hash") != manifest.hash()) json.refuse("its hashes disagree");
  return manifest;
}

}  // namespace

RecordedFile::RecordedFile(const SourceFile& file, std::string content_hash)
    : path(utf8_name(file.path)), stamp(file.stamp), hash(std::move(content_hash)) {}

std::string Manifest::hash() const {
  return hash_text(str(train.hash, "\n", validation.hash, "\n", tokenizer_hash, "\n", vocab_size, "\n"));
}

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  const Json json{{"format", format_mark},
                  {"version", format_version},
                  {"settings", manifest.settings},
                  {"vocab_size", manifest.vocab_size},
                  {"tokenizer_hash", manifest.tokenizer_hash},
                  {"train", split_to_json(manifest.train, folder)},
                  {"validation", split_to_json(manifest.validation, folder)},
                  {"validation_bound", manifest.has_bound},
                  {"hash", manifest.hash()},
                  {"sources", files_to_json(manifest.sources, "path")},
                  {"written", files_to_json(manifest.written.value(), "name")}};
  write_file(folder / manifest_name, json.dump(2) + "\n");
}

Manifest read_manifest(const fs::path& folder) {
  const JsonFields json(folder / manifest_name, "remove its folder, and inkling-prepare makes it again");
  if (json.text("format") != format_mark) json.refuse("it describes something else");
  const std::int64_t version = json.whole("version", 1);
  if (version > format_version) {
    json.refuse(str("it is of version ", version, ", and this program knows 1 and ", format_version));
  }
  return manifest_from(json, folder);
}

Dataset dataset_of(const fs::path& folder, const Manifest& manifest) {
  Dataset dataset;
  dataset.folder = folder;
  dataset.vocab_size = manifest.vocab_size;
  dataset.train = manifest.train;
  dataset.validation = manifest.validation;
  dataset.hash = manifest.hash();
  return dataset;
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
