// TensorBoard's event files: records (TFRecord, below) that each hold an Event, a message of Protocol Buffers
// (tensorflow/core/util/event.proto, framework/summary.proto and framework/tensor.proto say its fields). Encoded here
// is what TensorBoard shows of a run; read again is only what belongs to which step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace inkling {

// How often which values occur. Bucket i holds what is above limits[i - 1] (the first one: from `smallest` on) and at
// most limits[i].
struct Histogram {
  double smallest = 0, largest = 0, count = 0, sum = 0, sum_of_squares = 0;
  std::vector<double> limits = {}, counts = {};  // of the buckets
};

// Curves of several tags in one picture.
struct Chart {
  std::string title;
  std::vector<std::string> tags;  // regular expressions
};

// The values of one step, each under its tag. A slash in a tag parts the group from the name within it: "loss/train".
class SummaryValues {
 public:
  void add_number(std::string_view tag, double value);  // as float32, of which TensorBoard draws curves
  void add_text(std::string_view tag, std::string_view markdown);
  void add_charts(std::string_view title, const std::vector<Chart>& charts);  // TensorBoard's page "custom scalars"
  void add_histogram(std::string_view tag, const Histogram& histogram);

  const std::string& message() const { return message_; }  // a Summary

 private:
  std::string message_;
};

// Return an event's record. wall_time: seconds since 1970.
std::string version_event(double wall_time);  // which every file begins with
// Says that everything from `step` on is made anew, so that a TensorBoard forgets what it has read of these steps.
std::string restart_event(double wall_time, std::int64_t step);
std::string values_event(double wall_time, std::int64_t step, const SummaryValues& values);

// Returns how many bytes at the beginning of a file that these functions have written hold whole events up to `step`;
// of that step itself those in front of the first whose first tag begins with one of `last_tags`. The steps in it do
// not fall, but for those of the version, which counts as 0, and of a restart, which counts as the step before its own.
std::uint64_t events_up_to(const InputFile& file, std::int64_t step, std::span<const std::string_view> last_tags = {});

// TFRecord, in which TensorBoard reads events (tensorflow/core/lib/io/record_writer.h). A record is, with numbers
// little-endian:
//
//   uint64  length of the data in bytes
//   uint32  masked CRC-32C of these 8 bytes
//   bytes   the data
//   uint32  masked CRC-32C of the data
//
// A file is records one after the other, without a header, so that it can be cut off after any of them.

// Returns CRC-32C (Castagnoli; RFC 3720, appendix B.4), and TFRecord's mask of it: turned right by 15 bits, plus a
// constant, because a CRC of data that hold their own CRC says little.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

// Returns the record that holds `data`.
std::string record_of(std::string_view data);

// A record in a file, by its bytes.
struct RecordPlace {
  std::uint64_t data = 0, length = 0;
  std::uint64_t end() const { return data + length + sizeof(std::uint32_t); }
};

// Returns where the data lie of the record that begins at `offset`; none at the end of the file, and where it ends
// within the record or the length is damaged. The data are not read.
std::optional<RecordPlace> find_record(const InputFile& file, std::uint64_t offset);

}  // namespace inkling
