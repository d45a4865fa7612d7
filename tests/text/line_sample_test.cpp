#include "text/text_cuts.h"

#include "tests/text/text_testing.h"

namespace inkling {
namespace {

std::vector<std::string> kept(const LineSample& sample) {
  std::vector<std::string> lines;
  sample.for_each([&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

LineSample sample_of_numbers(std::uint64_t seed, std::uint64_t max_bytes, int count) {
  LineSample sample(seed, max_bytes);
  for (int i = 0; i < count; ++i) sample.add(std::to_string(i) + "\n");
  return sample;
}

TEST(LineSample, KeepsEverythingThatFits) {
  const auto lines = kept(sample_of_numbers(1, 1000, 100));
  ASSERT_EQ(lines.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(lines[static_cast<std::size_t>(i)], std::to_string(i) + "\n");
}

TEST(LineSample, KeepsAboutHalfTheRoomOrMoreInTheOrderOfTheText) {
  const auto sample = sample_of_numbers(1, 10000, 100000);
  EXPECT_LE(sample.bytes(), 10000u);
  EXPECT_GE(sample.bytes(), 2500u);  // of 10 bytes a line, 4 are not its own
  int last = -1;
  for (const auto& line : kept(sample)) {
    EXPECT_GT(std::stoi(line), last);
    last = std::stoi(line);
  }
  EXPECT_GT(last, 90000) << "the end of the text is sampled too";
}

TEST(LineSample, IsAFunctionOfTheSeed) {
  EXPECT_EQ(kept(sample_of_numbers(1, 1000, 9999)), kept(sample_of_numbers(1, 1000, 9999)));
  EXPECT_NE(kept(sample_of_numbers(1, 1000, 9999)), kept(sample_of_numbers(2, 1000, 9999)));
}

// Whether a line is kept depends only on its own number and on the level that was reached: what was dropped on the way
// leaves no trace.
TEST(LineSample, ALineKeptFromALongTextIsKeptFromItsBeginning) {
  const auto small = kept(sample_of_numbers(3, 2000, 1000)), large = kept(sample_of_numbers(3, 2000, 50000));
  for (const auto& line : large) {
    if (std::stoi(line) >= 1000) break;
    EXPECT_NE(std::find(small.begin(), small.end(), line), small.end()) << line;
  }
}

TEST(LineSample, ShortLinesTakeMoreRoomThanTheirBytes) {
  LineSample sample(1, 10000);
  for (int i = 0; i < 2000; ++i) sample.add("\n");
  EXPECT_EQ(sample.size(), 2000u);
  sample.add("\n");
  EXPECT_LT(sample.size(), 1500u);
}

TEST(LineSample, ALineLargerThanTheRoomIsDropped) {
  LineSample sample(1, 10);
  sample.add("far too long for this\n");
  EXPECT_EQ(sample.size(), 0u);
  EXPECT_EQ(sample.bytes(), 0u);
}

}  // namespace
}  // namespace inkling
