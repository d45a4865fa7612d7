#include "base/files.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/paths.h"
#include "base/system_files.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

std::size_t entries_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

void expect_error(const std::optional<Error>& error, ErrorKind kind, const std::string& mention) {
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), kind);
  EXPECT_NE(error->message().find(mention), std::string::npos) << error->message();
}

TEST(InputFile, ReadsAnywhereAndTellsWhereTheEndCame) {
  const TemporaryFolder folder;
  write_file(folder / "ten", "0123456789");
  InputFile opened(folder / "ten");
  const InputFile file(std::move(opened));
  EXPECT_EQ(file.size(), 10U);
  std::string text(4, ' ');
  file.read_exactly(3, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "3456");
  EXPECT_EQ(file.read_all(), "0123456789");
  EXPECT_EQ(file.read_some(8, std::as_writable_bytes(std::span(text))), 2U);
  EXPECT_EQ(text, "8956");
  EXPECT_EQ(file.read_some(10, std::as_writable_bytes(std::span(text))), 0U);
  const auto error = error_of([&] { file.read_exactly(8, std::as_writable_bytes(std::span(text))); });
  expect_error(error, ErrorKind::input, "ten: ends at byte 10");
}

TEST(InputFile, CutWhileOpenIsAnErrorAndNoSignal) {
  const TemporaryFolder folder;
  write_file(folder / "file", std::string(100000, 'x'));
  const InputFile file(folder / "file");
  fs::resize_file(folder / "file", 10);
  std::string text(1000, ' ');
  expect_error(error_of([&] { file.read_exactly(50000, std::as_writable_bytes(std::span(text))); }), ErrorKind::input,
               "cut short");
}

TEST(InputFile, RefusesWhatIsNoRegularFileAtOnce) {
  const TemporaryFolder folder;
  const auto refused = [](const fs::path& path, const std::string& mention) {
    expect_error(error_of([&] { InputFile file(path); }), ErrorKind::input, mention);
    expect_error(error_of([&] { read_small_file(path); }), ErrorKind::input, mention);
  };
  refused(folder / "missing", "missing: No such file");
  write_file(folder / "file", "text");
  refused(folder / std::string("file\0more", 9), "No such file");
  refused(folder.path(), folder.path().string() + ": Is a directory");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  refused(folder / "pipe", "pipe: it is a pipe");
  refused("/dev/zero", "/dev/zero: it is a device");
  fs::create_symlink("/dev/zero", folder / "link");
  refused(folder / "link", "link: it is a device");
}

TEST(SmallFile, EveryByteOfFilesAndPipesIsReturned) {
  const TemporaryFolder folder;
  const std::string contents = std::string(200000, 'a') + std::string(1, '\0') + "end";
  write_file(folder / "file", contents);
  write_file(folder / "empty", "");
  for (const auto& read : {read_small_file, read_small_file_or_pipe}) {
    EXPECT_EQ(read(folder / "file"), contents);
    EXPECT_EQ(read(folder / "empty"), "");
    EXPECT_NE(read("/proc/self/status"), "");  // a regular file whose size is given as 0
  }

  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(folder / "pipe") << contents; });
  EXPECT_EQ(read_small_file_or_pipe(folder / "pipe"), contents);
  writer.join();
  expect_error(error_of([] { read_small_file_or_pipe("/dev/zero"); }), ErrorKind::input, "it is a device");
}

TEST(SmallFile, MayHold64MiBAndNoMore) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file").flush();
  fs::resize_file(folder / "file", largest_small_file);  // which takes no room on the disk
  EXPECT_EQ(read_small_file(folder / "file").size(), std::size_t{64} << 20);
  fs::resize_file(folder / "file", largest_small_file + 1);
  expect_error(error_of([&] { read_small_file(folder / "file"); }), ErrorKind::input, "it is larger than 64.0 MiB");

  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto previous_handler = ::signal(SIGPIPE, SIG_IGN);
  std::thread writer([&] {  // which ends when the reader has gone
    std::ofstream pipe(folder / "pipe");
    for (const std::string block(1 << 20, 'a'); pipe;) pipe << block;
  });
  expect_error(error_of([&] { read_small_file_or_pipe(folder / "pipe"); }), ErrorKind::input, "it is larger than 64");
  writer.join();
  ::signal(SIGPIPE, previous_handler);
}

TEST(OutputFile, AppearsOnlyWhenCommitted) {
  const TemporaryFolder folder;
  {
    OutputFile file(folder / "a");
    file.write("text");
    EXPECT_FALSE(fs::exists(folder / "a"));
  }
  EXPECT_EQ(entries_in(folder.path()), 0U);
  OutputFile file(folder / "a");
  file.write("te");
  file.write(bytes_of("xt"));
  EXPECT_EQ(file.size(), 4U);
  file.commit();
  EXPECT_EQ(read_file(folder / "a"), "text");
  EXPECT_EQ(entries_in(folder.path()), 1U);
  expect_error(error_of([&] { file.commit(); }), ErrorKind::internal, "second commit");
}

TEST(OutputFile, OldContentsStayWholeUntilTheCommit) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  {
    OutputFile file(folder / "a");
    file.write(std::string(3 << 20, 'n'));
    EXPECT_EQ(read_file(folder / "a"), "old");
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  write_file(folder / "a", "new");
  EXPECT_EQ(read_file(folder / "a"), "new");
}

TEST(OutputFile, TwoWritersOfOneNameDoNotMix) {
  const TemporaryFolder folder;
  OutputFile first(folder / "a");
  OutputFile second(folder / "a");
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  EXPECT_EQ(read_file(folder / "a"), "first");
  EXPECT_EQ(entries_in(folder.path()), 1U);
}

TEST(OutputFile, HoldsWhatWasWrittenHoweverItWasCut) {
  const TemporaryFolder folder;
  EXPECT_TRUE(rc::check([&] {
    std::string expected;
    OutputFile file(folder / "a");
    const auto size_of_piece = rc::gen::element<std::size_t>(0, 1, 7, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 1);
    const auto sizes = *rc::gen::resize(6, rc::gen::container<std::vector<std::size_t>>(size_of_piece));
    for (const std::size_t size : sizes) {
      const std::string piece(size, static_cast<char>('a' + expected.size() % 26));
      file.write(piece);
      expected += piece;
      if (expected.size() < 8 || !*rc::gen::arbitrary<bool>()) continue;
      const std::size_t at = *rc::gen::inRange<std::size_t>(0, expected.size() - 3);
      file.write_at(at, bytes_of("PATCH").first(4));
      expected.replace(at, 4, "PATC");
    }
    RC_ASSERT(file.size() == expected.size());
    file.commit();
    RC_ASSERT(read_file(folder / "a") == expected);
  }));
}

TEST(OutputFile, PatchPastTheEndIsRefused) {
  const TemporaryFolder folder;
  OutputFile file(folder / "a");
  file.write("0123");
  expect_error(error_of([&] { file.write_at(2, bytes_of("abc")); }), ErrorKind::internal, "past the end");
  expect_error(error_of([&] { file.write_at(5, {}); }), ErrorKind::internal, "past the end");
}

TEST(OutputFile, KilledInTheMiddleLeavesTheOldFileWhole) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  const pid_t child = ::fork();
  if (child == 0) {
    OutputFile file(folder / "a");
    while (true) file.write(std::string(1 << 20, 'n'));
  }
  const auto growing = [&] {
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      if (entry.path().filename() != "a" && entry.file_size() > 0) return true;
    }
    return false;
  };
  while (!growing()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(entries_in(folder.path()), 2U);

  // What it left is younger than a minute, so it could belong to a writer that has not locked it yet; later it could
  // not.
  write_file(folder / "a", "new");
  EXPECT_EQ(entries_in(folder.path()), 2U);
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  write_file(folder / "a", "newer");
  EXPECT_EQ(entries_in(folder.path()), 1U);
  EXPECT_EQ(read_file(folder / "a"), "newer");
}

TEST(OutputFile, NeverRemovesWhatAnotherWriterStillFills) {
  const TemporaryFolder folder;
  OutputFile slow(folder / "a");
  slow.write(std::string(2 << 20, 's'));
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  write_file(folder / "a", "quick");
  slow.commit();
  EXPECT_EQ(read_file(folder / "a").size(), std::size_t{2 << 20});
}

TEST(OutputFile, FailedWriteNamesTheFileAndLeavesNothing) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  const auto previous_handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit previous{};
  ::getrlimit(RLIMIT_FSIZE, &previous);
  const rlimit small{.rlim_cur = 1 << 20, .rlim_max = previous.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto error = error_of([&] { write_file(folder / "a", std::string(2 << 20, 'n')); });
  ::setrlimit(RLIMIT_FSIZE, &previous);
  ::signal(SIGXFSZ, previous_handler);
  expect_error(error, ErrorKind::environment, "cannot write " + (folder / "a").string());
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(entries_in(folder.path()), 1U);
}

TEST(OutputFile, FullDiskSaysWhatToDo) {
  const auto error = error_of([] { throw_write_error("write", "runs/a.bin", ENOSPC); });
  expect_error(error, ErrorKind::environment, "cannot write runs/a.bin: No space left on device; free some space");
}

TEST(OutputFile, FolderThatIsMissingOrAFileIsAnEnvironmentError) {
  const TemporaryFolder folder;
  write_file(folder / "file", "");
  expect_error(error_of([&] { write_file(folder / "missing/a", ""); }), ErrorKind::environment, "missing/a");
  expect_error(error_of([&] { write_file(folder / "file/a", ""); }), ErrorKind::environment, "file/a");
  expect_error(error_of([&] { write_file(folder.path(), ""); }), ErrorKind::environment, folder.path().string());
}

TEST(OutputFolder, AppearsWholeOrNotAtAll) {
  const TemporaryFolder folder;
  {
    OutputFolder dropped(folder / "step");
    write_file(dropped.temporary() / "a", "text");
  }
  EXPECT_EQ(entries_in(folder.path()), 0U);
  OutputFolder kept(folder / "step/");
  fs::create_directory(kept.temporary() / "inner");
  write_file(kept.temporary() / "inner" / "a", "text");
  EXPECT_FALSE(fs::exists(folder / "step"));
  kept.commit();
  EXPECT_EQ(read_file(folder / "step" / "inner" / "a"), "text");
  EXPECT_EQ(entries_in(folder.path()), 1U);
}

TEST(OutputFolder, NeverReplacesWhatStandsThere) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "step");
  OutputFolder other(folder / "step");
  expect_error(error_of([&] { other.commit(); }), ErrorKind::environment, "exists already");
}

TEST(OutputFolder, ReplaceExchangesTheWholeFolderAndLeavesNothingBeside) {
  const TemporaryFolder folder;
  for (const char* name : {"first", "second"}) {
    OutputFolder next(folder / "step");
    write_file(next.temporary() / name, name);
    next.replace();
    EXPECT_EQ(entries_in(folder.path()), 1U);
    EXPECT_EQ(entries_in(folder / "step"), 1U);
    EXPECT_EQ(read_file(folder / "step" / name), name);
  }
}

TEST(OutputFolder, LeftByAKilledWriterIsRemovedByTheNext) {
  const TemporaryFolder folder;
  const fs::path left = temporary_name(folder / "step", 0);
  fs::create_directory(left);
  write_file(left / "model", "half");
  fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::hours(1));
  OutputFolder next(folder / "step");
  EXPECT_FALSE(fs::exists(left / "model"));
  next.commit();
  EXPECT_EQ(entries_in(folder.path()), 1U);
}

TEST(CreateFolders, MakesAllOfThemAndNamesTheOneInTheWay) {
  const TemporaryFolder folder;
  create_folders(folder / "a/b/c");
  create_folders(folder / "a/b/c");
  EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
  write_file(folder / "file", "");
  expect_error(error_of([&] { create_folders(folder / "file/x"); }), ErrorKind::environment, "file/x");
  expect_error(error_of([&] { create_folders(folder / "file"); }), ErrorKind::environment, "file");
}

}  // namespace
}  // namespace inkling
