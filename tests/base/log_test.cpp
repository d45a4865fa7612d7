#include "base/log.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "base/progress.h"
#include "base/terminal_text.h"
#include "tests/stderr_of.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

void log_three_lines() {
  log_info("plain {} %d line");
  log_warning("careful");
  log_error("gone");
}

TEST(Log, LinesCarryTheirKindAndNothingElse) {
  EXPECT_EQ(stderr_of(false, false, log_three_lines), "plain {} %d line\nwarning: careful\nerror: gone\n");
}

TEST(Log, ColorIsForTerminalsWithoutNoColor) {
  if (!terminals_exist()) GTEST_SKIP() << "no /dev/ptmx";
  EXPECT_NE(stderr_of(true, false, log_three_lines).find("\033["), std::string::npos);
  EXPECT_EQ(stderr_of(true, true, log_three_lines), "plain {} %d line\r\nwarning: careful\r\nerror: gone\r\n");
}

TEST(Progress, ShortWorkStaysSilent) {
  if (!terminals_exist()) GTEST_SKIP() << "no /dev/ptmx";
  const auto work = [] {
    const auto start = std::chrono::steady_clock::now();
    Progress progress("reading", 100, "B");
    for (std::uint64_t done = 0; done <= 100; ++done) {
      if (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(900)) progress.update(done);
    }
  };
  EXPECT_EQ(stderr_of(true, false, work), "");
  EXPECT_EQ(stderr_of(false, false, work), "");
}

TEST(Progress, LongWorkShowsABarOnATerminalAndWipesIt) {
  if (!terminals_exist()) GTEST_SKIP() << "no /dev/ptmx";
  const auto work = [] {
    Progress progress("reading", 4000000, "B");
    std::this_thread::sleep_for(std::chrono::milliseconds(1020));
    progress.update(2000000);
  };
  const std::string text = stderr_of(true, true, work);
  EXPECT_NE(text.find("reading: [##########..........] 50 %, 2.0 MB, "), std::string::npos) << text;
  EXPECT_NE(text.find(" s left"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\r\033[J")) << text;
  EXPECT_EQ(stderr_of(false, true, work), "") << "elsewhere the first line comes after ten seconds";
}

// What stands in the line after one update at 50 of 100 "stories", in a terminal of so many columns.
std::string bar_in(unsigned short columns, const std::string& label) {
  const std::string text = stderr_of(
      true, true,
      [&] {
        Progress progress(label, 4000, "stories");
        std::this_thread::sleep_for(std::chrono::milliseconds(1020));
        progress.update(2000);
      },
      columns);
  const std::string before = "\r\033[?7l";
  EXPECT_TRUE(text.starts_with(before)) << text;
  return text.substr(before.size(), text.find("\033[?7h\033[J\r") - before.size());
}

TEST(Progress, ABarFitsAnyTerminalAndSaysTheMostImportantFirst) {
  if (!terminals_exist()) GTEST_SKIP() << "no /dev/ptmx";
  for (const unsigned short columns : {4, 20, 40, 80}) {
    const std::string bar = bar_in(columns, "日本語の物語を数える");
    EXPECT_LT(columns_of(bar), columns) << bar;  // the last column stays free: behind it a terminal may wrap
    EXPECT_NE(bar.find(columns == 4 ? "50" : "50 %"), std::string::npos) << bar;
    EXPECT_EQ(bar.find(" left") != std::string::npos, columns >= 20) << bar;
    EXPECT_EQ(bar.find("語の") != std::string::npos, columns >= 40) << bar;
    EXPECT_EQ(bar.find("[####") != std::string::npos, columns >= 80) << bar;
  }
}

// What was done before says nothing of the pace: one more of 4,000 after more than a second is less than one a second.
TEST(Progress, ABarThatBeginsInTheMiddleCountsFromThere) {
  if (!terminals_exist()) GTEST_SKIP() << "no /dev/ptmx";
  const std::string text = stderr_of(true, true, [] {
    Progress progress("merging", 4000, "tokens", 3000);
    std::this_thread::sleep_for(std::chrono::milliseconds(1020));
    progress.update(3000);
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    progress.update(3001);
  });
  EXPECT_TRUE(contains(text, "75 %, 3,000 tokens, 0.0/s\033")) << "and how long it takes is not known";
  const std::size_t pace = text.find("3,001 tokens, ");
  ASSERT_NE(pace, std::string::npos) << text;
  EXPECT_LT(std::stod(text.substr(pace + 14)), 1.0) << text;
}

}  // namespace
}  // namespace inkling
