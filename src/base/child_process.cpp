#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/stop_signals.h"
#include "base/strings.h"
#include "base/system_files.h"

namespace inkling {

namespace {

constexpr int no_answer = 1;
constexpr int milliseconds_between_looks = 100;

void write_answer(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) _exit(no_answer);
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Reads to the end, which comes soon after a stop was requested: that ends the child.
std::string read_answer(int descriptor, pid_t child) {
  std::string bytes;
  std::array<char, 65536> block;
  while (true) {
    pollfd ready{descriptor, POLLIN, 0};
    if (poll(&ready, 1, milliseconds_between_looks) <= 0) {
      if (stop_requested()) kill(child, SIGKILL);
      continue;
    }
    const ssize_t count = read(descriptor, block.data(), block.size());
    if (count > 0) bytes.append(block.data(), static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) return bytes;
  }
}

[[noreturn]] void run_child(const std::function<std::string()>& work, int answer) {
  // This is registered last and so called first: an exit() inside `work` must not run the parent's destructors here.
  std::atexit([] { _exit(no_answer); });
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int number : stop_signals) {
    if (!is_ignored(number)) signal(number, SIG_DFL);
  }
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) {
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
  }
  try {
    write_answer(answer, work());
  } catch (...) {
    _exit(no_answer);
  }
  _exit(0);
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw Error::environment(str("cannot wait for a child process: ", errno_text(errno)));
  }
  return status;
}

}  // namespace

std::optional<std::string> run_in_child_process(const std::function<std::string()>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error::environment(str("cannot open a pipe: ", errno_text(errno)));
  const pid_t child = fork();
  if (child == 0) run_child(work, ends[1]);
  const int fork_error = errno;
  close(ends[1]);
  std::string answer = child > 0 ? read_answer(ends[0], child) : std::string();
  close(ends[0]);
  if (child < 0) throw Error::environment(str("cannot start a child process: ", errno_text(fork_error)));

  const int status = wait_for(child);
  leave_if_stopped();
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (number == SIGKILL || number == SIGINT || number == SIGTERM || number == SIGHUP) {
    throw Error::environment(str("the child process was ended by signal ", number, " (", strsignal(number), ")",
                                 number == SIGKILL ? ": the machine may be out of memory" : ""));
  }
  if (status != 0) return std::nullopt;  // it refused with exit(), or crashed
  return answer;
}

}  // namespace inkling
