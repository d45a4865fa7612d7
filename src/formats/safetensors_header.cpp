// parse_safetensors_header: from untrusted bytes to entries that account for every byte of the file.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "formats/safetensors.h"
#include "formats/safetensors_dtypes.h"

namespace inkling {

namespace {

using Json = nlohmann::json;

constexpr int max_nesting = 127;

// What is wrong, without the file's name: parse_safetensors_header adds it.
[[noreturn]] void refuse(std::string message) { throw Error::input(std::move(message)); }

// Looks on while the JSON is read: refuses what a finished object no longer shows.
class NestingAndDuplicates {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& value) {
    const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= max_nesting) refuse(str("the header nests deeper than ", max_nesting, " levels"));
    if (event != Json::parse_event_t::key || depth > 2) return true;
    const auto& key = value.get_ref<const std::string&>();
    if (depth == 1) fields_.clear();
    if (!(depth == 1 ? names_ : fields_).insert(key).second) refuse(str("the name ", quote(key), " is given twice"));
    return true;
  }

 private:
  std::set<std::string> names_;   // of the header
  std::set<std::string> fields_;  // of the entry being read
};

Json parse_json(std::string_view text) {
  if (const auto offset = find_invalid_utf8(text)) refuse(str("the header is not UTF-8 at byte ", 8 + *offset));
  if (text.starts_with("\xef\xbb\xbf")) refuse("the header begins with a byte order mark");
  // The JSON library takes a zero byte for the end of its input and would not look at what follows.
  if (const auto zero = text.find('\0'); zero != text.npos) refuse(str("the header is not JSON at byte ", 8 + zero));
  try {
    NestingAndDuplicates watch;
    const auto callback = [&](int depth, Json::parse_event_t event, Json& value) { return watch(depth, event, value); };
    Json json = Json::parse(text.begin(), text.end(), callback);
    if (!json.is_object()) refuse("the header is not a JSON object");
    return json;
  } catch (const Json::parse_error& error) {
    refuse(str("the header is not JSON at byte ", 8 + error.byte));
  } catch (const Json::exception&) {
    refuse("the header holds a number out of range");
  }
}

std::vector<std::uint64_t> sizes_from(const Json& json, const std::string& what) {
  std::vector<std::uint64_t> sizes;
  if (!json.is_array()) refuse(str(what, " is not a list"));
  for (const Json& size : json) {
    if (!size.is_number_unsigned()) refuse(str(what, " holds something other than whole numbers from 0"));
    sizes.push_back(size.get<std::uint64_t>());
  }
  return sizes;
}

const Json& field(const Json& entry, const char* name, std::size_t position, const std::string& what) {
  if (entry.is_array() && entry.size() == 3) return entry[position];
  if (!entry.is_object()) refuse(str(what, " is not an object with dtype, shape and data_offsets"));
  const auto found = entry.find(name);
  if (found == entry.end()) refuse(str(what, " has no ", name));
  return *found;
}

std::uint64_t checked_product(std::uint64_t a, std::uint64_t b, const std::string& what) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) refuse(str(what, " is larger than any file"));
  return product;
}

TensorEntry entry_from(const std::string& name, const Json& json) {
  const std::string what = "tensor " + quote(name);
  const Json& dtype = field(json, "dtype", 0, what);
  const std::string dtype_name = dtype.is_string() ? dtype.get<std::string>() : dtype.type_name();
  const std::size_t rank = safetensors_dtype_rank(dtype_name);
  if (rank == safetensors_dtypes.size()) refuse(str(what, " has the unknown dtype ", quote(dtype_name)));
  const auto shape = sizes_from(field(json, "shape", 1, what), "the shape of " + what);
  const auto offsets = sizes_from(field(json, "data_offsets", 2, what), "data_offsets of " + what);
  if (offsets.size() != 2) refuse(str("data_offsets of ", what, " are ", offsets.size(), " numbers instead of 2"));

  std::uint64_t bits = 1;
  for (const std::uint64_t size : shape) bits = checked_product(bits, size, what);
  bits = checked_product(bits, safetensors_dtypes[rank].bits, what);
  if (bits % 8 != 0) refuse(str(what, " does not fill whole bytes"));
  if (offsets[1] < offsets[0]) refuse(str(what, " ends before it begins"));
  if (offsets[1] - offsets[0] != bits / 8) {
    refuse(str(what, " takes ", bits / 8, " bytes, but its data_offsets span ", offsets[1] - offsets[0]));
  }
  return {.name = name, .dtype = dtype_name, .shape = shape, .begin = offsets[0], .end = offsets[1]};
}

std::map<std::string, std::string> metadata_from(const Json& json) {
  std::map<std::string, std::string> metadata;
  if (json.is_null()) return metadata;
  if (!json.is_object()) refuse("__metadata__ is not an object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) refuse(str("__metadata__ holds something other than text at ", quote(key)));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// Sorts by position and checks that the tensors cover the data without gap, overlap or rest.
void check_coverage(std::vector<TensorEntry>& tensors, std::uint64_t data_size) {
  const auto position = [](const TensorEntry& tensor) { return std::tie(tensor.begin, tensor.end, tensor.name); };
  std::sort(tensors.begin(), tensors.end(), [&](const auto& a, const auto& b) { return position(a) < position(b); });
  std::uint64_t covered = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin != covered) {
      refuse(str("tensor ", quote(tensor.name), " begins at byte ", tensor.begin, " of the data instead of ", covered));
    }
    covered = tensor.end;
  }
  if (covered != data_size) {
    refuse(str("the tensors take ", covered, " bytes, but ", data_size, " follow the header",
               covered > data_size ? ": the file was cut short" : ""));
  }
}

SafetensorsHeader parse(std::span<const std::byte> head, std::uint64_t file_size) {
  std::uint64_t length = 0;
  if (head.size() < sizeof length || file_size < sizeof length) refuse("it is shorter than 8 bytes");
  std::memcpy(&length, head.data(), sizeof length);
  if (length > max_safetensors_header)
    refuse(str("its header would take ", length, " bytes; 100,000,000 is the limit"));
  if (length > file_size - sizeof length || length > head.size() - sizeof length) {
    refuse(str("its header of ", length, " bytes goes past the end: the file was cut short"));
  }
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + sizeof length, length);
  const Json json = parse_json(text);

  SafetensorsHeader header;
  header.data_offset = sizeof length + length;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__")
      header.metadata = metadata_from(value);
    else
      header.tensors.push_back(entry_from(name, value));
  }
  check_coverage(header.tensors, file_size - header.data_offset);
  return header;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> head, std::uint64_t file_size,
                                           const std::filesystem::path& path) {
  try {
    return parse(head, file_size);
  } catch (const Error& error) {
    throw Error::input(
        str(path.string(), ": is no sound safetensors file: ", error.message(), "; fetch it or save it again"));
  }
}

}  // namespace inkling
