// A disk or a folder that cannot be read is an error at once: it is never taken for damage, or for a missing
// checkpoint.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "base/files.h"
#include "checkpoint/checkpoint.h"
#include "tests/checkpoint/tiny_run.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

class Unreadable : public testing::Test {
 protected:
  Unreadable() {
    for (const std::int64_t step : {10, 20, 30}) run_.save_step(place(), step);
    run_.state.best_step = 30;
  }

  fs::path place() const { return temporary_ / "run"; }
  fs::path step(std::int64_t number) const { return checkpoint_folder(place(), number); }

  // Every way to a checkpoint.
  void expect_environment_error(const std::string& mention) const {
    const std::vector<std::function<void()>> ways = {[&] { newest_checkpoint(place()); },
                                                     [&] { find_checkpoint(place(), ""); },
                                                     [&] { find_checkpoint(place(), "newest"); }};
    for (const auto& way : ways) {
      const std::optional<Error> error = error_of(way);
      ASSERT_TRUE(error);
      EXPECT_EQ(error->kind(), ErrorKind::environment) << error->message();
      EXPECT_TRUE(contains(error->message(), mention));
    }
  }

  void expect_nothing_pruned() const {
    testing::internal::CaptureStderr();
    prune_checkpoints(place(), run_.state, 1);
    EXPECT_TRUE(contains(testing::internal::GetCapturedStderr(), "old checkpoints are not removed this time: cannot"));
    for (const std::int64_t number : {10, 20, 30}) EXPECT_TRUE(fs::exists(step(number))) << number;
  }

  TemporaryFolder temporary_;
  TinyRun run_;
};

TEST_F(Unreadable, FaultyDiskIsAnError) {
  for (const char* name : {"state.json", "model.safetensors", "config.yaml"}) {
    const fs::path path = step(30) / name;
    const fs::path aside = temporary_ / name;
    fs::rename(path, aside);
    fs::create_symlink("/proc/self/mem", path);  // opens, and its first byte reads as EIO
    if (name == std::string("state.json")) {
      expect_environment_error("state.json: Input/output error");
      expect_nothing_pruned();
    } else {  // its size of 0 is damage enough
      EXPECT_EQ(newest_checkpoint(place()), step(20));
    }
    fs::remove(path);
    fs::rename(aside, path);
  }
}

TEST_F(Unreadable, TooManyOpenFilesAreAnError) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(free);
  const auto limited = [&](int more, const std::function<void()>& action) {
    const rlimit limit = {static_cast<rlim_t>(free + more), before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    const std::optional<Error> error = error_of(action);
    ::setrlimit(RLIMIT_NOFILE, &before);
    return error;
  };
  bool enough = false;
  for (int more = 0; !enough; ++more) {  // from not even the folder to all that it takes
    ASSERT_LT(more, 10);
    for (const char* which : {"resume", "", "newest", "20"}) {
      const std::optional<Error> error = limited(more, [&] {
        if (which == std::string("resume"))
          EXPECT_EQ(newest_checkpoint(place()), step(30));
        else
          find_checkpoint(place(), which);
      });
      enough = !error;
      if (error) {
        EXPECT_EQ(error->kind(), ErrorKind::environment) << error->message();
        EXPECT_TRUE(contains(error->message(), "ulimit -n"));
      }
    }
  }
  std::string warning;
  testing::internal::CaptureStderr();
  limited(0, [&] { prune_checkpoints(place(), run_.state, 1); });
  EXPECT_TRUE(contains(testing::internal::GetCapturedStderr(), "not removed this time"));
  for (const std::int64_t number : {10, 20, 30}) EXPECT_TRUE(fs::exists(step(number))) << number;
}

TEST_F(Unreadable, FolderOrFileWithoutPermissionIsAnError) {
  const bool root = ::geteuid() == 0;
  for (const fs::path& path : {step(30) / "state.json", step(30), place() / "checkpoints", place()}) {
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    ASSERT_EQ(::chmod(path.c_str(), 0), 0);
    ASSERT_EQ(::seteuid(root ? 65534 : ::geteuid()), 0);  // 65534 is nobody: root may read everything
    expect_environment_error("permissions");
    testing::internal::CaptureStderr();
    prune_checkpoints(place(), run_.state, 1);
    EXPECT_TRUE(contains(testing::internal::GetCapturedStderr(), "not removed this time"));
    ASSERT_EQ(::seteuid(root ? 0 : ::geteuid()), 0);
    ASSERT_EQ(::chmod(path.c_str(), status.st_mode), 0);
    for (const std::int64_t number : {10, 20, 30}) EXPECT_TRUE(fs::exists(step(number))) << number;
  }
}

}  // namespace
}  // namespace inkling
