// TensorBoard's event files: records (formats/record_file.h) that each hold an Event, a message of Protocol Buffers
// (tensorflow/core/util/event.proto, framework/summary.proto and framework/tensor.proto say its fields). Encoded here
// is what TensorBoard shows of a run; read again is only what belongs to which step.
#pragma once

#include <cstdint>
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

}  // namespace inkling
