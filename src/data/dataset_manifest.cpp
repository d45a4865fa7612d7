#include "data/dataset_manifest.h"

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/strings.h"

namespace inkling {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view format_mark = "inkling-dataset";
constexpr int format_version = 1;

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

SplitSummary split_from_json(const Json& json, const fs::path& folder) {
  SplitSummary split;
  json.at("tokens").get_to(split.tokens);
  json.at("bytes").get_to(split.bytes);
  json.at("documents").get_to(split.documents);
  json.at("ends_at").get_to(split.ends_at);
  json.at("hash").get_to(split.hash);
  for (const Json& shard : json.at("shards")) split.shards.push_back(folder / shard.get<std::string>());
  return split;
}

Json source_to_json(const RecordedSource& source) {
  return Json{{"path", source.path},
              {"size", source.size},
              {"mtime_ns", source.mtime_ns},
              {"inode", source.inode},
              {"hash", source.hash}};
}

RecordedSource source_from_json(const Json& json) {
  RecordedSource source;
  json.at("path").get_to(source.path);
  json.at("size").get_to(source.size);
  json.at("mtime_ns").get_to(source.mtime_ns);
  json.at("inode").get_to(source.inode);
  json.at("hash").get_to(source.hash);
  return source;
}

Manifest manifest_from_json(const Json& json, const fs::path& folder) {
  Manifest manifest;
  for (const auto& [key, value] : json.at("settings").items()) manifest.settings[key] = value.get<std::string>();
  for (const Json& source : json.at("sources")) manifest.sources.push_back(source_from_json(source));
  json.at("tokenizer_hash").get_to(manifest.tokenizer_hash);
  json.at("vocab_size").get_to(manifest.vocab_size);
  manifest.train = split_from_json(json.at("train"), folder);
  manifest.validation = split_from_json(json.at("validation"), folder);
  json.at("validation_bound").get_to(manifest.has_bound);
  if (json.at("hash").get<std::string>() != manifest.hash()) throw Error::input("its hashes disagree");
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
  const fs::path path = folder / manifest_name;
  const std::string text = read_small_file(path);
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != format_mark) throw Error::input("it describes something else");
    if (json.at("version") != format_version) {
      throw Error::input(
          str("it is of version ", json.at("version").dump(), ", and this program knows version ", format_version));
    }
    return manifest_from_json(json, folder);
  } catch (const Error& error) {
    throw Error::input(str(path.string(), " is no use: ", error.message(), "; inkling-prepare makes it anew"));
  } catch (const nlohmann::json::exception&) {
    throw Error::input(str(path.string(), " is damaged; inkling-prepare makes it anew"));
  }
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
