#include "text/line_sample.h"

#include "base/random.h"

namespace inkling {

LineSample::LineSample(std::uint64_t seed, std::uint64_t max_bytes)
    : key_(random_key(seed, Purpose::tokenizer_sample, 0)), max_bytes_(max_bytes) {}

void LineSample::add(std::string_view line) {
  const std::uint64_t number = random_bits(key_, line_count_++);
  if (number > threshold_) return;
  text_ += line;
  lines_.push_back({number, static_cast<std::uint32_t>(line.size())});
  while (taken() > max_bytes_ && threshold_ > 0) drop_half();
}

void LineSample::drop_half() {
  threshold_ >>= 1;
  std::size_t from = 0, to = 0, kept = 0;
  for (const Line& line : lines_) {
    if (line.number <= threshold_) {
      text_.replace(to, line.length, text_, from, line.length);
      to += line.length;
      lines_[kept++] = line;
    }
    from += line.length;
  }
  text_.resize(to);
  lines_.resize(kept);
}

}  // namespace inkling
