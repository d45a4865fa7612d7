#include "train/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace inkling {
namespace {

std::atomic<int> received = 0;  // a signal handler can reach nothing but a global, and may run in two threads at once
static_assert(std::atomic<int>::is_always_lock_free);

constexpr const char* notice = "finishing the step and saving; Ctrl-C again ends at once\n";
constexpr const char* notice_over_the_bar = "\r\033[Kfinishing the step and saving; Ctrl-C again ends at once\n";
const char* what_to_say = notice;

// Only what may be called at any moment: the logger may be in the middle of a line.
void on_signal(int number) {
  if (received.exchange(number) != 0) _exit(128 + number);
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, what_to_say, std::strlen(what_to_say));
  errno = saved;
}

void handle_with(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  received = 0;
  what_to_say = stderr_is_terminal() ? notice_over_the_bar : notice;
  handle_with(on_signal);
}

StopSignal::~StopSignal() { handle_with(SIG_DFL); }

bool StopSignal::requested() const { return received != 0; }

}  // namespace inkling
