// TensorBoard's event files, byte by byte. scripts/check-tensorboard asks TensorBoard itself.
#include "formats/event_file.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/strings.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

std::string hex(std::string_view bytes) {
  std::string digits;
  for (const char byte : bytes) digits += hexadecimal(static_cast<unsigned char>(byte), 2);
  return digits;
}

// The data of a record.
std::string data_of(const std::string& record) { return record.substr(12, record.size() - 16); }

// RFC 3720, appendix B.4.
TEST(Crc32c, IsThatOfTheStandardsExamples) {
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) rising += static_cast<char>(i), falling += static_cast<char>(31 - i);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(rising), 0x46dd794eu);
  EXPECT_EQ(crc32c(falling), 0x113fdb5cu);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
}

// The first record of a file that TensorFlow's own writer makes.
TEST(Records, HoldTheirLengthAndTheMaskedSumsOfBoth) {
  const std::string record =
      record_of(std::string("\x09\x00\x00\x80\x39\xee\x79\xd8\x41\x1a\x0d"
                            "brain.Event:2",
                            24));
  EXPECT_EQ(hex(record.substr(0, 12)), "1800000000000000a37f4b22");
  EXPECT_EQ(record.size(), 40u);
  EXPECT_EQ(data_of(record).substr(11), "brain.Event:2");
  const std::uint32_t sum = masked_crc32c(data_of(record));
  EXPECT_EQ(hex(record.substr(36)), hex(std::string(reinterpret_cast<const char*>(&sum), 4)));
}

TEST(Events, AreEncodedFieldByField) {
  EXPECT_EQ(hex(data_of(version_event(1.0))), "09000000000000f03f10001a0d" + hex("brain.Event:2"));
  EXPECT_EQ(hex(data_of(restart_event(1.0, 300))), "09000000000000f03f10ac023a020801");
  SummaryValues number;
  number.add_number("a/b", 0.5);
  EXPECT_EQ(hex(data_of(values_event(1.0, 1, number))), "09000000000000f03f10012a0c0a0a0a03612f62150000003f");
  SummaryValues text;
  text.add_text("t", "hi");
  EXPECT_EQ(hex(text.message()),
            "0a1b0a0174"
            "4a080a060a0474657874"
            "420c"
            "0807"
            "12041202"
            "0801"
            "42026869");
  SummaryValues charts;
  charts.add_charts("t", {{"c", {"a"}}});
  const std::string layout =
      "120d"
      "0a0174"
      "1208"
      "0a0163"
      "1203"
      "0a0161";
  EXPECT_EQ(hex(charts.message()),
            "0a45"
            "0a18" +
                hex("custom_scalars__config__") +
                "4a12"
                "0a10"
                "0a0e" +
                hex("custom_scalars") +
                "4215"
                "0807"
                "1200"
                "420f" +
                layout);
  SummaryValues histogram;
  histogram.add_histogram(
      "h", {.smallest = 1, .largest = 1, .count = 2, .sum = 2, .sum_of_squares = 2, .limits = {1}, .counts = {2}});
  const std::string one = "000000000000f03f", two = "0000000000000040";
  EXPECT_EQ(hex(histogram.message()),
            "0a460a01682a41"
            "09" +
                one + "11" + one + "19" + two + "21" + two + "29" + two + "3208" + one + "3a08" + two);
}

class EventSteps : public testing::Test {
 protected:
  std::uint64_t up_to(const std::string& contents, std::int64_t step) const {
    return events_up_to(InputFile(folder_.write("events", contents)), step);
  }

  static std::string at(std::int64_t step) {
    SummaryValues values;
    values.add_number("loss", 1);
    return values_event(1.0, step, values);
  }

  const TemporaryFolder folder_;
};

TEST_F(EventSteps, EndWhereALaterOneBegins) {
  const std::string version = version_event(1.0), small = at(1), large = at(1'000'000'000),
                    restart = restart_event(1, 2);
  EXPECT_EQ(up_to("", 5), 0u);
  EXPECT_EQ(up_to(version + small, -1), 0u);
  EXPECT_EQ(up_to(version + small, 0), version.size());
  EXPECT_EQ(up_to(version + small + small + large, 1), version.size() + 2 * small.size());
  EXPECT_EQ(up_to(version + small + restart + large, 1), version.size() + small.size() + restart.size());
  EXPECT_EQ(up_to(version + large, 999'999'999), version.size());
  EXPECT_EQ(up_to(version + large, 1'000'000'000), version.size() + large.size());
}

// A start that makes what was due of the last step writes it behind its restart.
TEST_F(EventSteps, ARestartCountsAsTheStepBeforeItsOwn) {
  const std::string before = version_event(1.0) + restart_event(1.0, 4) + at(3);
  EXPECT_EQ(up_to(before + at(4), 3), before.size());
  EXPECT_EQ(up_to(before, 2), version_event(1.0).size());
}

TEST_F(EventSteps, EndInFrontOfATagOfTheLastOne) {
  constexpr std::array<std::string_view, 2> tags = {"loss/val", "sample/"};
  SummaryValues evaluation, words;
  evaluation.add_number("loss/validation", 1);
  words.add_text("settings", "sample/ and loss/validation");
  const auto up_to = [&](const std::string& contents, std::int64_t step) {
    return events_up_to(InputFile(folder_.write("events", contents)), step, tags);
  };
  const std::string before =
      version_event(1.0) + values_event(1.0, 3, evaluation) + values_event(1.0, 4, words) + at(4);
  EXPECT_EQ(up_to(before + values_event(1.0, 4, evaluation) + at(4), 4), before.size());
  EXPECT_EQ(up_to(before + at(5), 4), before.size());
}

TEST_F(EventSteps, EndWhereTheFileIsCutOffOrDamaged) {
  const std::string version = version_event(1.0), event = at(3);
  for (std::size_t length = 0; length < event.size(); ++length) {
    EXPECT_EQ(up_to(version + event.substr(0, length), 9), version.size()) << length;
  }
  for (std::size_t byte = 0; byte < 12; ++byte) {  // the length and its sum
    std::string damaged = event;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 0x40);
    EXPECT_EQ(up_to(version + damaged + event, 9), version.size()) << byte;
  }
  EXPECT_EQ(up_to(version + std::string(4096, '\0'), 9), version.size());
  EXPECT_EQ(up_to(version + record_of("") + event, 9), version.size());
  EXPECT_EQ(up_to(version + record_of("\x08\x01 no event of ours"), 9), version.size());
  EXPECT_EQ(up_to(version + record_of("\t12345678\x10" + std::string(12, '\xff')), 9), version.size());
}

}  // namespace
}  // namespace inkling
