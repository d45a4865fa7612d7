// A program of ours under way, to be sent signals.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "tests/program_runner.h"

namespace inkling {

class Process {
 public:
  Process(const std::string& program, std::vector<std::string> arguments, const std::filesystem::path& folder)
      : folder_(folder) {
    arguments.insert(arguments.begin(), std::string(INKLING_BIN_DIR "/") + program);
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    // Before the fork: what another process said in this folder is not to be taken for what this one says.
    const int out = open((folder / ".stdout").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    const int err = open((folder / ".stderr").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    pid_ = fork();
    if (pid_ != 0) {
      close(out);
      close(err);
      return;
    }
    dup2(out, 1);
    dup2(err, 2);
    if (chdir(folder.c_str()) == 0) execv(words[0], words.data());
    _exit(127);
  }

  pid_t id() const { return pid_; }

  bool runs() const {
    siginfo_t ended = {};
    return waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
  }

  void send(int signal) const { kill(pid_, signal); }

  // Exit code 128 + number where a signal ended it.
  Outcome wait() const {
    int status = 0;
    waitpid(pid_, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, read_small_file(folder_ / ".stdout"), read_file(folder_ / ".stderr")};
  }

  // Wait until stderr or stdout holds `text`, or the process has ended; return whether it does.
  bool has_said(const std::string& text) const { return holds(".stderr", text); }
  bool has_printed(const std::string& text) const { return holds(".stdout", text); }

 private:
  bool holds(const char* file, const std::string& text) const {
    for (bool running = true;;) {
      std::ifstream stream(folder_ / file);
      const std::string written((std::istreambuf_iterator<char>(stream)), {});
      if (written.find(text) != std::string::npos) return true;
      if (!running) return false;
      running = runs();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::filesystem::path folder_;
  pid_t pid_ = -1;
};

}  // namespace inkling
