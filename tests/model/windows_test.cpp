// Attention in windows against the reference model, which masks a full matrix, at the lengths where something begins or
// ends: a window, the interleaved texts of a dilated one, a tile of queries or a block of the loops, the model's block.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/model/against_reference.h"

namespace inkling::test {
namespace {

constexpr std::int64_t block_size = 101;

const std::vector<std::vector<AttentionPattern>> pattern_lists = {
    {{1, 1}},  {{12, 1}}, {{48, 1}}, {{49, 1}},     {{5, 3}},
    {{16, 3}}, {{48, 2}}, {{2, 40}}, {{}, {13, 1}}, {{20, 1}, {6, 7}, {}}};

std::vector<std::int64_t> around(std::int64_t length) { return {length - 1, length, length + 1}; }

std::set<std::int64_t> lengths_for(const std::vector<AttentionPattern>& patterns) {
  std::set<std::int64_t> lengths = {1, block_size};
  const auto add = [&](std::int64_t length) {
    for (const std::int64_t each : around(length)) {
      if (each >= 1 && each <= block_size) lengths.insert(each);
    }
  };
  for (const AttentionPattern& pattern : patterns) {
    if (pattern.is_full()) continue;
    add(pattern.window);
    add(pattern.window * pattern.dilation);
  }
  for (const std::int64_t border : {12, 48, 96}) add(border);
  return lengths;
}

class Windows : public AgainstReference {};

TEST_P(Windows, AgreeWithTheReferenceAtEveryBorder) {
  GptShape shape = small_shape;
  shape.block_size = block_size;
  const bool has_time = !threads_take_turns() || (options().device().is_cuda() && oracle::is_nightly());
  for (const std::vector<AttentionPattern>& patterns : pattern_lists) {
    shape.n_layer = static_cast<std::int64_t>(patterns.size());
    shape.patterns = patterns;
    for (const std::int64_t time : has_time ? lengths_for(patterns) : std::set<std::int64_t>{17}) {
      SCOPED_TRACE(testing::Message() << time << " tokens");
      expect_reference(shape, 0.0, time);
    }
    if (numbers_are_ours()) expect_reference(shape, 0.2, has_time ? block_size : 18);
    if (HasFailure()) return;
  }
}

// Head h of queries reads keys and values h / 2, whichever of the interleaved texts it belongs to.
TEST_P(Windows, ServeGroupedHeadsThatTurn) {
  GptShape shape = modern_shape;
  shape.block_size = block_size;
  for (const AttentionPattern& pattern : {AttentionPattern{7, 1}, AttentionPattern{4, 5}}) {
    shape.patterns = {pattern};
    for (const std::int64_t time : {19, 22}) expect_reference(shape, 0.0, time);
  }
}

INKLING_ON_EVERY_SETTING(Windows);

}  // namespace
}  // namespace inkling::test
