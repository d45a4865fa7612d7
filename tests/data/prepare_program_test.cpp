// inkling-prepare as a person meets it: exit codes, messages, what goes to stdout.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>

#include "tests/program_runner.h"
#include "tests/temporary_folder.h"
#include "tests/train/process.h"

namespace inkling {
namespace {

class Program : public testing::Test {
 protected:
  Outcome run(const std::string& arguments) { return run_command(folder.path(), "inkling-prepare " + arguments); }

  // The processor time that the program takes, which does not pass while others have the processor.
  double processor_milliseconds(const char* argument) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(STDOUT_FILENO);
      ::open("/dev/null", O_WRONLY);
      ::execl(INKLING_BIN_DIR "/inkling-prepare", "inkling-prepare", argument, nullptr);
      ::_exit(127);
    }
    int status = 0;
    rusage usage = {};
    ::wait4(child, &status, 0, &usage);
    EXPECT_EQ(status, 0);
    const auto of = [](const timeval& time) {
      return 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
    };
    return of(usage.ru_utime) + of(usage.ru_stime);
  }

  void write_config(const std::string& more = "") {
    folder.write("run.yaml", "data:\n  source: a.txt\n" + more + "model:\n  block_size: 8\n");
  }

  void write_text() {
    std::string text;
    for (int i = 0; i < 50; ++i) text += "A line of text.\n";
    folder.write("a.txt", text);
  }

  void expect_refused(const std::string& arguments, const std::string& part, int code = 2) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(contains(outcome.err, "error: "));
    EXPECT_TRUE(contains(outcome.err, part));
  }

  TemporaryFolder folder;
};

TEST_F(Program, PrintsTheFolderOnStdoutAndTheSummaryOnStderr) {
  write_config();
  write_text();
  const Outcome outcome = run("run.yaml");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("data/a-char-"));
  EXPECT_EQ(outcome.out.back(), '\n');
  EXPECT_TRUE(fs::exists(folder.path() / outcome.out.substr(0, outcome.out.size() - 1) / "dataset.json"));
  EXPECT_TRUE(contains(outcome.err, "train: 720 tokens"));
  EXPECT_TRUE(contains(outcome.err, "validation: 80 tokens"));
  const Outcome again = run("run.yaml");
  EXPECT_EQ(again.out, outcome.out);
  EXPECT_FALSE(contains(again.err, "preparing"));
}

TEST_F(Program, BadSettingsEndWithCode2AndTheirLine) {
  write_text();
  const auto refuse = [&](const std::string& yaml, const std::string& part) {
    folder.write("run.yaml", yaml);
    expect_refused("run.yaml", part);
  };
  refuse("data: {source: a.txt, sourse: b.txt}\n", "run.yaml:1:");
  refuse("data:\n  source: a.txt\nmodel:\n  block_size: many\n", "run.yaml:4:");
  refuse("data:\n  source: a.txt\nmodel:\n  block_size: -3\n", "run.yaml:4:");
  refuse("data:\n  source: [a.txt\n", "run.yaml:");
  refuse("data:\n  source: a.txt\n  source: a.txt\n", "run.yaml:3:");
  refuse("", "the file is empty");
  expect_refused("nowhere.yaml", "nowhere.yaml");
  EXPECT_FALSE(fs::exists(folder.path() / "data"));
}

TEST_F(Program, HelpAnswersBeforeAPersonNotices) {
  const Outcome outcome = run("--help");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(contains(outcome.out, "--verify"));
  EXPECT_TRUE(contains(outcome.out, "CONFIG"));
  EXPECT_EQ(outcome.err, "");
  double milliseconds = INFINITY;  // the least of five: other work on the machine empties the caches
  for (int i = 0; i < 5; ++i) milliseconds = std::min(milliseconds, processor_milliseconds("--help"));
#ifndef __SANITIZE_ADDRESS__  // whose own start takes as long
  EXPECT_LT(milliseconds, 50);
#endif
}

TEST_F(Program, VersionIsToldWithoutAConfig) {
  const Outcome outcome = run("--version");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "inkling-prepare 0."));
  EXPECT_TRUE(contains(outcome.out, "LibTorch: not needed\n"));
}

TEST_F(Program, UnknownFlagsNameTheNearestOne) {
  expect_refused("run.yaml --verfy", "unknown flag --verfy: did you mean --verify?");
  expect_refused("--dryrun", "did you mean --dry-run?");
  expect_refused("run.yaml --zzzzzzzzz", "--help");
  expect_refused("run.yaml other.yaml", "unexpected argument \"other.yaml\"");
}

TEST_F(Program, AMissingArgumentOrValueIsRefused) {
  expect_refused("", "CONFIG");
  expect_refused("run.yaml --set", "--set");
}

TEST_F(Program, SettingsAreOverriddenInOrder) {
  write_config();
  write_text();
  const Outcome outcome = run("run.yaml --set data.tokenizer.kind=char --set data.tokenizer.kind=byte");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("data/a-byte-")) << outcome.out;
  expect_refused("run.yaml --set data.tokenizer.knd=byte", "data.tokenizer.kind");
}

TEST_F(Program, PrintConfigWritesOnlyTheSettings) {
  write_config();
  const Outcome outcome = run("run.yaml --print-config --set data.val_fraction=0.25");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(contains(outcome.out, "val_fraction: 0.25"));
  EXPECT_FALSE(fs::exists(folder / "data"));
}

TEST_F(Program, ADryRunWritesNothing) {
  write_config();
  write_text();
  const Outcome outcome = run("run.yaml --dry-run");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "train: 720 tokens"));
  EXPECT_FALSE(fs::exists(folder / "data"));
}

TEST_F(Program, BadTextIsExitCodeTwoWithItsLine) {
  write_config();
  expect_refused("run.yaml", "a.txt does not exist");
  folder.write("a.txt", "");
  expect_refused("run.yaml", "a.txt:1: the file is empty");
  folder.write("a.txt", "short\n");
  expect_refused("run.yaml", "a.txt:1: the text for training ends after 5 tokens");
  folder.write("a.txt", "one line\nbad \xff line\n");
  expect_refused("run.yaml", "a.txt:2");
  EXPECT_TRUE(fs::is_empty(folder / "data"));
}

TEST_F(Program, AFolderThatCannotBeWrittenIsExitCodeThree) {
  write_config("  dir: /proc/prepared\n");
  write_text();
  expect_refused("run.yaml", "/proc", 3);
}

TEST_F(Program, AFolderThatCannotBeLookedIntoIsNoInternalError) {
  write_text();
  fs::create_directory_symlink("circle", folder / "circle");
  write_config("  dir: circle/prepared\n");
  expect_refused("run.yaml", "symbolic links lead in a circle");
  write_config("  dir: " + std::string(300, 'x') + "/prepared\n");
  expect_refused("run.yaml", "too long");
}

TEST_F(Program, AFullStandardOutputIsExitCodeThree) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full here";
  write_config();
  EXPECT_EQ(run("run.yaml --print-config > /dev/full").code, 3);
}

TEST_F(Program, AKilledPreparationLeavesNothingThatIsBelieved) {
  write_config("  tokenizer:\n    kind: byte\n");
  folder.write("a.txt", std::string(64 << 20, 'x'));
  for (const int milliseconds : {0, 20, 50}) {
    const Process process("inkling-prepare", {"run.yaml"}, folder.path());
    ASSERT_TRUE(process.has_said("preparing"));
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));  // other moments, whichever they are
    process.send(SIGKILL);
    if (process.wait().code == 0) break;  // a machine so fast that it has prepared everything
    if (!fs::exists(folder / "data")) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / "data")) {
      EXPECT_TRUE(entry.path().filename().string().starts_with('.')) << entry.path() << " after " << milliseconds;
    }
  }
  const Outcome outcome = run("run.yaml");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "data"), fs::directory_iterator()), 1);
}

// Returns once there is a folder in `data` that is being filled, or the process has ended.
void wait_until_it_makes(const fs::path& data, const Process& process) {
  const auto is_begun = [&] {
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(data, ignored)) {
      if (entry.path().filename().string().find(".tmp-") != std::string::npos) return true;
    }
    return false;
  };
  while (!is_begun() && process.runs()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_F(Program, APreparationThatIsStoppedRemovesWhatItHasMade) {
  std::string words;  // none twice, so that a vocabulary is long in the making
  for (int i = 0; i < 400'000; ++i) words += std::to_string(1'000'003ll * i) + (i % 9 == 8 ? "\n" : " ");
  folder.write("a.txt", words);
  const std::string stories = "  source: " INKLING_SOURCE_DIR "/data/fables.grammar\n  stories: 100000000\n";
  for (const std::string& data :
       {stories + "  tokenizer: {kind: byte}\n",
        std::string("  source: a.txt\n  tokenizer: {kind: bpe, vocab_size: 50000}\n"),
        std::string("  source: a.txt\n  tokenizer: {kind: sentencepiece, vocab_size: 30000}\n")}) {
    folder.write("run.yaml", "data:\n" + data + "model:\n  block_size: 8\n");
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      const Process process("inkling-prepare", {"run.yaml"}, folder.path());
      wait_until_it_makes(folder / "data", process);
      process.send(signal);
      EXPECT_EQ(process.wait().code, 128 + signal) << data;
      EXPECT_TRUE(fs::is_empty(folder / "data")) << data;
    }
  }
}

// No default action ends the first process of a container, and `docker stop` waits ten seconds for it.
TEST_F(Program, TheFirstProcessOfAContainerEndsAtASignalToo) {
  folder.write("run.yaml",
               "data:\n  source: " INKLING_SOURCE_DIR
               "/data/fables.grammar\n  stories: 100000000\n  tokenizer: {kind: byte}\nmodel: {block_size: 8}\n");
  constexpr int no_container = 77;
  const pid_t outside = ::fork();
  if (outside == 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) ::_exit(no_container);
    const Process first("inkling-prepare", {"run.yaml"}, folder.path());
    if (first.id() < 0) ::_exit(no_container);
    wait_until_it_makes(folder / "data", first);
    first.send(SIGTERM);
    for (int tenths = 0; first.runs() && tenths < 600; ++tenths)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const bool ended = !first.runs();
    first.send(SIGKILL);
    ::_exit(ended ? first.wait().code : 1);
  }
  int status = 0;
  ::waitpid(outside, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == no_container) GTEST_SKIP() << "no container may be made here";
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
}

}  // namespace
}  // namespace inkling
