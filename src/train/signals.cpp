#include "train/signals.h"

#include <signal.h>
#include <unistd.h>

namespace inkling {
namespace {

volatile sig_atomic_t received = 0;  // a signal handler can reach nothing but a global

void on_signal(int number) {
  if (received != 0) _exit(128 + number);
  received = number;
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
  handle_with(on_signal);
}

StopSignal::~StopSignal() { handle_with(SIG_DFL); }

bool StopSignal::requested() const { return received != 0; }

}  // namespace inkling
