#include "formats/event_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <span>

namespace inkling {

namespace {

// How the bytes after a field's number are to be read (protobuf.dev, "Encoding").
enum class WireType : std::uint64_t { varint = 0, eight_bytes = 1, counted = 2, four_bytes = 5 };

constexpr std::uint64_t data_type_string = 7;  // DT_STRING of tensorflow/core/framework/types.proto
constexpr std::uint64_t session_started = 1;   // SessionLog.START

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

void append_key(std::string& out, std::uint64_t field, WireType type) {
  append_varint(out, field << 3 | static_cast<std::uint64_t>(type));
}

template <typename Number>
void append_bytes_of(std::string& out, Number number) {
  std::array<char, sizeof number> bytes{};
  std::memcpy(bytes.data(), &number, sizeof number);
  out.append(bytes.data(), bytes.size());
}

void append_whole(std::string& out, std::uint64_t field, std::uint64_t value) {
  append_key(out, field, WireType::varint);
  append_varint(out, value);
}

void append_double(std::string& out, std::uint64_t field, double value) {
  append_key(out, field, WireType::eight_bytes);
  append_bytes_of(out, value);
}

// A text, or a message inside.
void append_counted(std::string& out, std::uint64_t field, std::string_view bytes) {
  append_key(out, field, WireType::counted);
  append_varint(out, bytes.size());
  out += bytes;
}

void append_doubles(std::string& out, std::uint64_t field, const std::vector<double>& values) {
  std::string bytes;
  for (const double value : values) append_bytes_of(bytes, value);
  append_counted(out, field, bytes);
}

// Event: wall_time 1, step 2, file_version 3, summary 5, session_log 7.
std::string event(double wall_time, std::int64_t step, std::uint64_t field, std::string_view content) {
  std::string message;
  append_double(message, 1, wall_time);
  append_whole(message, 2, static_cast<std::uint64_t>(step));
  append_counted(message, field, content);
  return record_of(message);
}

// Summary.Value: tag 1, simple_value 2, histo 5, tensor 8, metadata 9; `content` holds what follows the tag.
std::string summary_value(std::string_view tag, std::string_view content) {
  std::string value, summary;
  append_counted(value, 1, tag);
  value += content;
  append_counted(summary, 1, value);
  return summary;
}

// A tensor of one string (dtype 1, tensor_shape 2, string_val 8), which a plugin of TensorBoard shows
// (SummaryMetadata: plugin_data 1; PluginData: plugin_name 1).
std::string tensor_for(std::string_view plugin_name, std::string_view shape, std::string_view text) {
  std::string tensor, plugin, metadata, content;
  append_whole(tensor, 1, data_type_string);
  append_counted(tensor, 2, shape);
  append_counted(tensor, 8, text);
  append_counted(plugin, 1, plugin_name);
  append_counted(metadata, 1, plugin);
  append_counted(content, 9, metadata);
  append_counted(content, 8, tensor);
  return content;
}

// Takes a number off the front of `bytes`; none if it does not end there.
std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0, bit = 0; i < bytes.size() && bit < 63; ++i, bit += 7) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << bit;
    if (byte >= 0x80) continue;
    bytes.remove_prefix(i + 1);
    return value;
  }
  return std::nullopt;
}

// Takes the step off the front of an event and what stands before it; none if event() did not write it.
std::optional<std::int64_t> take_step(std::string_view& bytes) {
  std::string before;
  append_double(before, 1, 0.0);
  append_key(before, 2, WireType::varint);
  if (bytes.size() <= before.size() || bytes.front() != before.front() || bytes[before.size() - 1] != before.back()) {
    return std::nullopt;
  }
  bytes.remove_prefix(before.size());
  const auto step = take_varint(bytes);
  return step ? std::optional(static_cast<std::int64_t>(*step)) : std::nullopt;
}

// Whether an event, of which `bytes` is what follows the step, is a restart_event().
bool is_restart(std::string_view bytes) {
  std::string key;
  append_key(key, 7, WireType::counted);
  return bytes.starts_with(key);
}

// Returns the tag of the first value of an event, of which `bytes` is what follows the step; empty if it has none.
std::string_view first_tag(std::string_view bytes) {
  std::uint64_t length = 0;
  for (const std::uint64_t field : {5, 1, 1}) {  // the summary, its first value, that one's tag
    std::string key;
    append_key(key, field, WireType::counted);
    if (!bytes.starts_with(key)) return {};
    bytes.remove_prefix(key.size());
    const auto counted = take_varint(bytes);
    if (!counted) return {};
    length = *counted;
  }
  return bytes.substr(0, length);
}

static_assert(std::endian::native == std::endian::little);  // numbers are copied as they lie in memory

constexpr std::size_t head_bytes = sizeof(std::uint64_t) + sizeof(std::uint32_t);

// What each value of a byte makes of the remainder: the polynomial is 0x1edc6f41, with its bits reversed.
constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = remainder;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> table = make_table();

template <typename Number>
std::string bytes_of(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

}  // namespace

void SummaryValues::add_number(std::string_view tag, double value) {
  std::string content;
  append_key(content, 2, WireType::four_bytes);
  append_bytes_of(content, static_cast<float>(value));
  message_ += summary_value(tag, content);
}

void SummaryValues::add_text(std::string_view tag, std::string_view markdown) {
  std::string size, shape;
  append_whole(size, 1, 1);        // TensorShapeProto.Dim: size 1
  append_counted(shape, 2, size);  // TensorShapeProto: dim 2
  message_ += summary_value(tag, tensor_for("text", shape, markdown));
}

// Layout: category 2. Category: title 1, chart 2. Chart: title 1, multiline 2. MultilineChartContent: tag 1
// (tensorboard/plugins/custom_scalar/layout.proto).
void SummaryValues::add_charts(std::string_view title, const std::vector<Chart>& charts) {
  std::string category, layout;
  append_counted(category, 1, title);
  for (const Chart& chart : charts) {
    std::string lines, message;
    for (const std::string& tag : chart.tags) append_counted(lines, 1, tag);
    append_counted(message, 1, chart.title);
    append_counted(message, 2, lines);
    append_counted(category, 2, message);
  }
  append_counted(layout, 2, category);
  message_ += summary_value("custom_scalars__config__", tensor_for("custom_scalars", "", layout));
}

// HistogramProto: min 1, max 2, num 3, sum 4, sum_squares 5, bucket_limit 6, bucket 7.
void SummaryValues::add_histogram(std::string_view tag, const Histogram& histogram) {
  std::string proto, content;
  append_double(proto, 1, histogram.smallest);
  append_double(proto, 2, histogram.largest);
  append_double(proto, 3, histogram.count);
  append_double(proto, 4, histogram.sum);
  append_double(proto, 5, histogram.sum_of_squares);
  append_doubles(proto, 6, histogram.limits);
  append_doubles(proto, 7, histogram.counts);
  append_counted(content, 5, proto);
  message_ += summary_value(tag, content);
}

std::string version_event(double wall_time) { return event(wall_time, 0, 3, "brain.Event:2"); }

std::string restart_event(double wall_time, std::int64_t step) {
  std::string log;
  append_whole(log, 1, session_started);  // SessionLog: status 1
  return event(wall_time, step, 7, log);
}

std::string values_event(double wall_time, std::int64_t step, const SummaryValues& values) {
  return event(wall_time, step, 5, values.message());
}

std::uint64_t events_up_to(const InputFile& file, std::int64_t step, std::span<const std::string_view> last_tags) {
  constexpr std::size_t longest_beginning = 128;  // of an event, with time, step and enough of a tag
  std::uint64_t bytes = 0;
  while (const auto place = find_record(file, bytes)) {
    std::string beginning(std::min<std::uint64_t>(place->length, longest_beginning), '\0');
    file.read_exactly(place->data, std::as_writable_bytes(std::span(beginning)));
    std::string_view rest = beginning;
    const auto its_step = take_step(rest);
    if (!its_step) break;
    // A restart names the step that comes next: what stands behind it may be of the one before.
    if (*its_step - (is_restart(rest) ? 1 : 0) > step) break;
    const auto is_of_tag = [tag = first_tag(rest)](std::string_view begin) { return tag.starts_with(begin); };
    if (*its_step == step && std::any_of(last_tags.begin(), last_tags.end(), is_of_tag)) break;
    bytes = place->end();
  }
  return bytes;
}

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t remainder = ~0u;
  for (const char byte : bytes)
    remainder = table[(remainder ^ static_cast<unsigned char>(byte)) & 0xff] ^ (remainder >> 8);
  return ~remainder;
}

std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

std::string record_of(std::string_view data) {
  std::string record = bytes_of(static_cast<std::uint64_t>(data.size()));
  record += bytes_of(masked_crc32c(record));
  record += data;
  return record + bytes_of(masked_crc32c(data));
}

std::optional<RecordPlace> find_record(const InputFile& file, std::uint64_t offset) {
  std::string head(head_bytes, '\0');
  if (file.read_some(offset, std::as_writable_bytes(std::span(head))) < head_bytes) return std::nullopt;
  std::uint64_t length = 0;
  std::memcpy(&length, head.data(), sizeof length);
  const std::string_view counted = std::string_view(head).substr(0, sizeof length);
  if (head.substr(sizeof length) != bytes_of(masked_crc32c(counted))) return std::nullopt;
  const RecordPlace place = {.data = offset + head_bytes, .length = length};
  const bool is_whole = length <= file.size() && place.end() <= file.size();
  return is_whole ? std::optional(place) : std::nullopt;
}

}  // namespace inkling
