// Reading tensors from a safetensors file and writing one; safetensors_header.cpp holds the checks.
#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian and copied as it stands");

SafetensorsHeader read_header(const InputFile& file) {
  std::uint64_t length = 0;
  std::vector<std::byte> head(std::min<std::uint64_t>(sizeof length, file.size()));
  file.read_exactly(0, head);
  if (head.size() == sizeof length) {
    std::memcpy(&length, head.data(), sizeof length);
    // A length that cannot be true is left for the parser to refuse; it never becomes an allocation.
    length = std::min({length, max_safetensors_header, file.size() - sizeof length});
    head.resize(sizeof length + length);
    file.read_exactly(0, head);
  }
  return parse_safetensors_header(head, file.size(), file.path());
}

std::string json_string(std::string_view text) {
  if (find_invalid_utf8(text)) throw Error::input(str("safetensors cannot store ", quote(text), ": it is not UTF-8"));
  return nlohmann::json(text).dump();
}

std::string header_text(const std::vector<TensorToWrite>& tensors, const std::map<std::string, std::string>& metadata) {
  std::string text;
  const auto begin_field = [&](std::string_view name) { text += (text.empty() ? "{" : ",") + json_string(name) + ":"; };
  if (!metadata.empty()) {
    begin_field("__metadata__");
    std::string fields;
    for (const auto& [key, value] : metadata) {
      fields += (fields.empty() ? "" : ",") + json_string(key) + ":" + json_string(value);
    }
    text += "{" + fields + "}";
  }
  std::uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::array offsets = {offset, offset + tensor.bytes.size()};
    begin_field(tensor.name);
    text += str("{\"dtype\":", json_string(tensor.dtype), ",\"shape\":", nlohmann::json(tensor.shape).dump(),
                ",\"data_offsets\":", nlohmann::json(offsets).dump(), "}");
    offset = offsets[1];
  }
  text += text.empty() ? "{}" : "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data begins at a multiple of 8
  return text;
}

std::string head_of(const std::vector<TensorToWrite>& tensors, const std::map<std::string, std::string>& metadata) {
  const std::string text = header_text(tensors, metadata);
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

// What is written must pass the checks of the reader, so a wrong size or a name given twice never reaches the disk.
void check_head(std::string_view head, const std::vector<TensorToWrite>& tensors, const std::filesystem::path& path) {
  std::uint64_t file_size = head.size();
  for (const TensorToWrite& tensor : tensors) file_size += tensor.bytes.size();
  try {
    parse_safetensors_header(std::as_bytes(std::span(head)), file_size, path);
  } catch (const Error& error) {
    throw Error::internal("would write a broken file: " + error.message());
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path), header_(read_header(file_)) {
  for (const TensorEntry& tensor : header_.tensors) by_name_.push_back(&tensor);
  std::sort(by_name_.begin(), by_name_.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto is_before = [](const TensorEntry* tensor, std::string_view other) { return tensor->name < other; };
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name, is_before);
  return found == by_name_.end() || (*found)->name != name ? nullptr : *found;
}

void SafetensorsFile::read(const TensorEntry& tensor, std::span<std::byte> out) const {
  if (out.size() != tensor.bytes()) throw Error::internal(str("wrong size to read tensor ", quote(tensor.name)));
  file_.read_exactly(header_.data_offset + tensor.begin, out);
}

void write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    const std::size_t rank_a = safetensors_dtype_rank(a.dtype);
    const std::size_t rank_b = safetensors_dtype_rank(b.dtype);
    return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
  });
  const std::string head = head_of(tensors, metadata);
  check_head(head, tensors, path);
  OutputFile file(path);
  file.write(head);
  for (const TensorToWrite& tensor : tensors) file.write(tensor.fetch ? tensor.fetch() : tensor.bytes);
  file.commit();
}

}  // namespace inkling
