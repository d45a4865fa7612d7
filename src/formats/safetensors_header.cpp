// parse_safetensors_header: from untrusted bytes to entries that account for every byte of the file.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "formats/json.h"
#include "formats/model_place.h"
#include "formats/safetensors.h"

namespace inkling {

namespace {

// These are the rules of the reference reader, which looks for duplicates in entries only.
constexpr JsonRules header_rules{.deepest = 127, .deepest_unique = 2};

// Says what is wrong without the file's name, which parse_safetensors_header adds.
[[noreturn]] void refuse(std::string message) { throw Error::input(std::move(message)); }

std::uint64_t checked_product(std::uint64_t a, std::uint64_t b, const std::string& what) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) refuse(str(what, " is larger than any file"));
  return product;
}

// An entry as it is in the header: an object, or a list of the three values in this order. Other fields are ignored.
struct WrittenEntry {
  std::string name;
  std::optional<std::string> dtype = {};
  std::optional<std::vector<std::uint64_t>> shape = {}, data_offsets = {};

  std::string what() const { return "tensor " + quote(name); }
};

TensorEntry checked(WrittenEntry entry) {
  const std::string what = entry.what();
  const char* missing = !entry.dtype          ? "dtype"
                        : !entry.shape        ? "shape"
                        : !entry.data_offsets ? "data_offsets"
                                              : nullptr;
  if (missing != nullptr) refuse(str(what, " has no ", missing));
  const std::size_t rank = safetensors_dtype_rank(*entry.dtype);
  if (rank == safetensors_dtypes.size()) refuse(str(what, " has the unknown dtype ", quote(*entry.dtype)));
  const auto& offsets = *entry.data_offsets;
  if (offsets.size() != 2) refuse(str("data_offsets of ", what, " are ", offsets.size(), " numbers instead of 2"));

  std::uint64_t bits = 1;
  for (const std::uint64_t size : *entry.shape) bits = checked_product(bits, size, what);
  bits = checked_product(bits, safetensors_dtypes[rank].bits, what);
  if (bits % 8 != 0) refuse(str(what, " does not fill whole bytes"));
  if (offsets[1] < offsets[0]) refuse(str(what, " ends before it begins"));
  if (offsets[1] - offsets[0] != bits / 8) {
    refuse(str(what, " takes ", bits / 8, " bytes, but its data_offsets span ", offsets[1] - offsets[0]));
  }
  return {.name = std::move(entry.name),
          .dtype = std::move(*entry.dtype),
          .shape = std::move(*entry.shape),
          .begin = offsets[0],
          .end = offsets[1]};
}

// Fills the header while its text is read. Level 1 is inside the header, 2 inside an entry or the metadata, 3 inside
// the value of a field.
class HeaderEvents final : public JsonEvents {
 public:
  explicit HeaderEvents(SafetensorsHeader& header) : header_(header) {}

  void open_object() override { open(false); }
  void open_list() override { open(true); }

  void close() override {
    --level_;
    sizes_ = nullptr;
    if (level_ != 1 || in_metadata_) return;
    if (is_list_ && position_ != 3) refuse_entry();
    header_.tensors.push_back(checked(std::move(entry_)));
  }

  void name(std::string_view name) override {
    if (level_ == 1) begin_entry(name);
    if (level_ == 2) field_ = name == "dtype" || name == "shape" || name == "data_offsets" || in_metadata_ ? name : "";
  }

  void scalar(const JsonScalar& value) override {
    if (level_ == 0) refuse("the header is not a JSON object");
    if (in_metadata_) return read_metadata(value);
    if (level_ == 1) refuse_entry();
    if (level_ == 2) return read_field(std::get_if<std::string_view>(&value));
    if (sizes_ != nullptr) read_size(std::get_if<std::uint64_t>(&value));
  }

 private:
  void begin_entry(std::string_view name) {
    in_metadata_ = name == "__metadata__";
    entry_ = {.name = std::string(name)};
    position_ = 0;
  }

  [[noreturn]] void refuse_entry() const {
    refuse(str(entry_.what(), " is not an object with dtype, shape and data_offsets"));
  }

  void open(bool list) {
    if (level_ == 0 && list) refuse("the header is not a JSON object");
    if (in_metadata_ && level_ == 1 && list) refuse("__metadata__ is not an object");
    if (in_metadata_ && level_ == 2) refuse_metadata();
    if (level_ == 1) is_list_ = list;
    if (level_ == 2) open_field(list);
    if (level_ == 3 && sizes_ != nullptr) refuse_size();
    ++level_;
  }

  // Which field a value at level 2 belongs to.
  std::string_view next_field() {
    constexpr std::array order = {"dtype", "shape", "data_offsets"};
    if (!is_list_) return field_;
    if (position_ == order.size()) refuse_entry();
    return field_ = order[position_++];
  }

  void open_field(bool list) {
    const std::string_view field = next_field();
    if (field == "dtype") refuse(str(entry_.what(), " has the unknown dtype ", list ? "[…]" : "{…}"));
    if (field == "shape") sizes_ = &entry_.shape.emplace();
    if (field == "data_offsets") sizes_ = &entry_.data_offsets.emplace();
    if (sizes_ != nullptr && !list) refuse_no_list(field);
  }

  void read_field(const std::string_view* text) {
    const std::string_view field = next_field();
    if (field == "dtype" && text == nullptr) refuse(str(entry_.what(), " has an unknown dtype, which is not a string"));
    if (field == "dtype") entry_.dtype = *text;
    if (field == "shape" || field == "data_offsets") refuse_no_list(field);
  }

  void read_size(const std::uint64_t* size) {
    if (size == nullptr) refuse_size();
    sizes_->push_back(*size);
  }

  [[noreturn]] void refuse_no_list(std::string_view field) const {
    refuse(str("the ", field, " of ", entry_.what(), " is not a list"));
  }
  [[noreturn]] void refuse_size() const {
    refuse(str("the ", field_, " of ", entry_.what(), " holds something other than whole numbers from 0"));
  }
  [[noreturn]] void refuse_metadata() const {
    refuse(str("__metadata__ holds something other than text at ", quote(field_)));
  }

  void read_metadata(const JsonScalar& value) {
    if (level_ == 1 && std::holds_alternative<std::nullptr_t>(value)) return;
    if (level_ == 1) refuse("__metadata__ is not an object");
    const auto* text = std::get_if<std::string_view>(&value);
    if (text == nullptr) refuse_metadata();
    header_.metadata[field_] = *text;
  }

  SafetensorsHeader& header_;
  int level_ = 0;
  bool in_metadata_ = false;
  WrittenEntry entry_;
  bool is_list_ = false;                         // the entry's form
  std::size_t position_ = 0;                     // fields begun, where it is a list
  std::string field_;                            // being read, of an entry or of the metadata
  std::vector<std::uint64_t>* sizes_ = nullptr;  // the list being read, if it is one of the entry's
};

void read_entries(std::string_view text, SafetensorsHeader& header) {
  if (const auto offset = find_invalid_utf8(text)) refuse(str("the header is not UTF-8 at byte ", 8 + *offset));
  if (text.starts_with(byte_order_mark)) refuse("the header begins with a byte order mark");
  try {
    check_json(text, header_rules);
  } catch (const Error& error) {
    refuse("in its header, " + error.message());
  }
  if (count_lone_surrogates(text) > 0) {  // two names of this kind could not be told apart
    refuse("the header is not JSON that every program reads: it holds half of a surrogate pair");
  }
  HeaderEvents events(header);
  read_json(text, events);
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
  SafetensorsHeader header;
  header.data_offset = sizeof length + length;
  read_entries(text, header);
  check_coverage(header.tensors, file_size - header.data_offset);
  return header;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> head, std::uint64_t file_size,
                                           const std::filesystem::path& path) {
  refuse_stand_in(path, {reinterpret_cast<const char*>(head.data()), head.size()});
  try {
    return parse(head, file_size);
  } catch (const Error& error) {
    throw Error::input(
        str(path.string(), ": is not a sound safetensors file: ", error.message(), "; fetch it or save it again"));
  }
}

}  // namespace inkling
