// What the host touches although it must not: device memory, and pinned memory of copies that are under way.
#include <csignal>

#include "runtime.h"

namespace software_gpu {
namespace {

struct sigaction handler_before;

void on_fault(int signal, siginfo_t* info, void*) {
  const std::scoped_lock lock(mutex());
  const void* const address = info->si_addr;
  if (pardon_guarded(address)) return;
  if (is_device_memory(address)) end_with_mistake("the host touches device memory");
  if (is_own_view_of_device(address)) {
    const Task* const task = running_task();
    end_with_mistake(task == nullptr
                         ? "device memory is touched that is not allocated"
                         : "a " + task->work.kind + " touches device memory that is not allocated: " + task->work.name);
  }
  sigaction(signal, &handler_before, nullptr);  // the instruction faults once more, for somebody else
}

}  // namespace

void watch_faults() {
  static const bool is_watched = [] {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    return sigaction(SIGSEGV, &action, &handler_before) == 0;
  }();
  static_cast<void>(is_watched);
}

}  // namespace software_gpu
