// Which lines of log.jsonl a resumed run keeps.
#include <gtest/gtest.h>

#include <string>

#include "tests/temporary_folder.h"
#include "train/report.h"

namespace inkling {
namespace {

TEST(LogLines, OnlyWholeLinesOfStepsThatWereDoneAreKept) {
  const TemporaryFolder folder;
  const std::string kept = "{\"step\":1,\"loss\":2.5}\n{\"step\":10,\"loss\":null}\n";
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const std::string dropped =
      "{\"step\":11,\"loss\":2.5}\n{\"step\":18446744073709551615}\n{\"step\":-1}\n{\"step\":1.0}\n" +
      ("{\"step\":2,\"x\":" + deep + "}\n") + std::string("{\"step\":2}\0x\n", 13) +
      "{\"step\":2,\"step\":3}\n[2]\n\n{\"step\":";
  const std::string log = folder.write("log.jsonl", kept + dropped);
  const Report report(log, 10, 20, 0, 0);
  EXPECT_EQ(read_file(log), kept);
}

}  // namespace
}  // namespace inkling
