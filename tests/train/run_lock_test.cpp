// What a run folder is called, and who may train in it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/strings.h"
#include "tests/system_calls.h"
#include "tests/temporary_folder.h"
#include "train/run_folder.h"

namespace inkling {
namespace {

class RunLock : public testing::Test {
 protected:
  fs::path run() const { return folder_ / "run"; }

  std::optional<Error> error_of_holding() const {
    return error_of([&] { const RunFolder held(run(), false); });
  }

  std::string warnings_of_holding() const {
    testing::internal::CaptureStderr();
    const std::optional<Error> error = error_of_holding();
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_FALSE(error) << error->message();
    return said;
  }

  TemporaryFolder folder_;
};

TEST_F(RunLock, FolderThatIsHeldSaysByWhom) {
  const RunFolder held(run(), false);
  const std::optional<Error> error = error_of_holding();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::input);
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  for (const std::string& part :
       {str("another process is training in ", run().string(), " (process ", getpid(), " on "),
        str(" on ", host, " since 20"), str(" UTC); stop it first")}) {
    EXPECT_TRUE(contains(error->message(), part));
  }
}

TEST_F(RunLock, FolderThatAnOlderVersionHoldsOrWithStrangeTextInItsLockIsHeldAllTheSame) {
  const RunFolder held(run(), false);
  for (const std::string& text : {std::string(), std::string("\x1b[2J"), std::string(100000, 'x')}) {
    std::ofstream(run() / ".lock") << text;
    const std::optional<Error> error = error_of_holding();
    ASSERT_TRUE(error);
    EXPECT_TRUE(contains(error->message(), "another process is training in " + run().string()));
    EXPECT_LT(error->message().size(), 1000U);
    EXPECT_FALSE(contains(error->message(), "\x1b"));
  }
}

TEST_F(RunLock, FolderThatWasHeldIsFreeAgainAndNamesNobody) {
  EXPECT_EQ(warnings_of_holding(), "");
  EXPECT_EQ(read_file(run() / ".lock"), "");
  EXPECT_EQ(warnings_of_holding(), "");
}

int fails_to_lock(std::string_view call, int code) { return call == "flock" ? code : 0; }

TEST_F(RunLock, FileSystemWithoutLocksIsSaidAndTrainedIn) {
  for (const int code : {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL}) {
    const SystemCalls watch([&](std::string_view call, const std::string&) { return fails_to_lock(call, code); });
    const std::string warnings = warnings_of_holding();
    EXPECT_TRUE(contains(warnings, "has no locks")) << code;
    EXPECT_TRUE(contains(warnings, run().string()));
  }
}

TEST_F(RunLock, OtherFaultsOfLockingAreTheMachines) {
  const SystemCalls watch([&](std::string_view call, const std::string&) { return fails_to_lock(call, EIO); });
  const std::optional<Error> error = error_of_holding();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::environment);
  EXPECT_TRUE(contains(error->message(), "Input/output error"));
}

TEST_F(RunLock, SignalDoesNotCountAsAFault) {
  int left = 2;
  const SystemCalls watch([&](std::string_view call, const std::string&) {
    return fails_to_lock(call, left > 0 && left-- > 0 ? EINTR : 0);
  });
  EXPECT_EQ(warnings_of_holding(), "");
  EXPECT_EQ(left, 0);
}

TEST_F(RunLock, FolderIsNamedAfterAConfigurationOrAText) {
  TrainOptions options;
  const auto named_after = [&](const fs::path& path) {
    options.config_path = path;
    return choose_run_folder(options).string();
  };
  folder_.write("letters.of.1912/first.txt", "");
  const std::string letters = (folder_ / "letters.of.1912").string();
  EXPECT_EQ(named_after("configs/small.yaml"), "runs/small");
  EXPECT_EQ(named_after("/dev/stdin"), "runs/stdin");
  EXPECT_EQ(named_after("book.v2.txt"), "runs/book.v2");
  for (const char* const end : {"", "/", "/.", "//", "/../letters.of.1912"}) {
    EXPECT_EQ(named_after(letters + end), "runs/letters.of.1912") << end;
  }
  EXPECT_EQ(named_after("."), "runs/" + fs::current_path().filename().string());
  for (const std::string& nameless : {std::string("/"), letters + "/*.txt"}) {
    const std::optional<Error> error = error_of([&] { named_after(nameless); });
    ASSERT_TRUE(error) << nameless;
    EXPECT_TRUE(contains(error->message(), "--out")) << error->message();
  }
}

}  // namespace
}  // namespace inkling
