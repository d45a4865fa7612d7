#include "base/stop_signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/log.h"
#include "base/strings.h"

namespace inkling {

namespace {

using Clock = std::chrono::steady_clock;

constexpr Clock::rep never = INT64_MAX;

// A signal handler can reach nothing but globals, and may run in two threads at once.
std::atomic<int> received = 0;
std::atomic<bool> in_order = false;
std::atomic<bool> has_launcher = false;
std::atomic<int> asked_by = 0;         // the first SIGINT or SIGTERM that came
std::atomic<Clock::rep> asked_at = 0;  // when
std::atomic<const char*> what_to_say = nullptr;
std::atomic<Clock::rep> deadline = never;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<Clock::rep>::is_always_lock_free &&
              std::atomic<const char*>::is_always_lock_free);

void set_action(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

// timeout(1) sends its signal to its child and then to the group that both are in; so does who passes Ctrl-C on. So one
// that comes again at once is the same request.
constexpr std::chrono::milliseconds same_request{200}, same_request_of_launcher{2000};

// Whether a SIGINT or SIGTERM is a second one, which insists.
bool insists(int signal) {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep first = 0;
  if (asked_at.compare_exchange_strong(first, now)) {
    asked_by = signal;
    return false;
  }
  if (has_launcher) {
    return signal == SIGINT && asked_by == SIGINT && now - first >= Clock::duration(same_request_of_launcher).count();
  }
  return asked_by != signal || now - first >= Clock::duration(same_request).count();
}

// Only what may be called at any moment: the logger may be in the middle of a line.
void on_signal(int signal) {
  if (!in_order || ((signal == SIGINT || signal == SIGTERM) && insists(signal))) end_by_signal(signal);
  const char* const text = what_to_say;
  if (received.exchange(signal) != 0 || text == nullptr) return;
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
  errno = saved;
}

}  // namespace

bool is_ignored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void answer_stop_signals() {
  for (const int signal : stop_signals) {
    if (!is_ignored(signal)) set_action(signal, on_signal);
  }
}

StopInOrder::StopInOrder(std::string_view notice, bool of_launcher)
    : notice_(notice.empty() ? "" : str(stderr_is_terminal() ? "\r\033[K" : "", notice, "\n")) {
  sigaction(SIGPIPE, nullptr, &before_);
  set_action(SIGPIPE, SIG_IGN);
  what_to_say = notice_.empty() ? nullptr : notice_.c_str();
  has_launcher = of_launcher;
  in_order = true;
}

StopInOrder::~StopInOrder() {
  in_order = has_launcher = false;
  what_to_say = nullptr;
  deadline = never;
  sigaction(SIGPIPE, &before_, nullptr);
}

void StopInOrder::set_deadline(Clock::time_point time) { deadline = time.time_since_epoch().count(); }

int stop_signal() { return received; }

bool stop_requested() {
  if (received != 0) return true;
  const Clock::rep end = deadline;
  return end != never && Clock::now().time_since_epoch().count() >= end;
}

void leave_if_stopped() {
  if (stop_requested()) throw Stopped();
}

void end_by_signal(int signal) {
  set_action(signal, SIG_DFL);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, signal);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);
}

}  // namespace inkling
