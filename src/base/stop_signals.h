// Signals that ask a program to end: Ctrl-C (SIGINT) and SIGTERM; SIGHUP, when its terminal closes; and SIGUSR1 and
// SIGUSR2, by which schedulers warn of the end of a job's time. SIGQUIT (Ctrl-\) is none of them and ends it at once.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <string_view>

namespace inkling {

inline constexpr std::array stop_signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

bool is_ignored(int signal);

// To be called once, when a program begins: these signals end it, as they do by default, but also where it is the first
// process of a container, to which the default does nothing. One that the parent ignores (nohup, a job in the
// background of a script) stays ignored.
void answer_stop_signals();

// While it lives, a stop signal only asks: stop_requested() says so, and whoever works leaves off in order. A second
// SIGINT or SIGTERM ends the program at once; the other signals never do, because one that closes a terminal comes
// twice (from the kernel and from the shell), and behind a scheduler's warning comes its SIGTERM. SIGPIPE is ignored
// meanwhile, because a Ctrl-C that asks us ends the reader of our messages (`| tee`). There is one at a time.
class StopInOrder {
 public:
  // notice: a line for the person, written when the first signal comes; "" for none. has_launcher: another program
  // started this one, which passes signals on that have come already and sends SIGTERM again: then only a second SIGINT
  // two seconds behind the first ends the program at once.
  explicit StopInOrder(std::string_view notice = "", bool has_launcher = false);
  ~StopInOrder();
  StopInOrder(const StopInOrder&) = delete;
  StopInOrder& operator=(const StopInOrder&) = delete;

  // From this time on, stop_requested() is true without a signal.
  void set_deadline(std::chrono::steady_clock::time_point time);

 private:
  const std::string notice_;
  struct sigaction before_ = {};  // of SIGPIPE
};

bool stop_requested();
int stop_signal();  // the number of the first signal that came while a StopInOrder lived; 0: none

// Thrown where work is left because a stop was requested. It is no error: run_program() ends the program as the signal
// would have ended it.
struct Stopped {};

void leave_if_stopped();  // throws Stopped; costs little, so that a loop can ask each time

// Ends the process as the signal does by default, with exit code 128 + signal where that does nothing.
[[noreturn]] void end_by_signal(int signal);

}  // namespace inkling
