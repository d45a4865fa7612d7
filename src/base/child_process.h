// Work that may end the process it runs in, done in a child process.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace inkling {

// Runs `work` in a child process and returns the bytes that it returned; nothing if that process exited or crashed
// without an answer. What it prints is dropped, and its memory goes back to the system. Throws Error environment if no
// process can be started, or if the child was ended from outside (because the machine ran out of memory), and
// Stopped (base/stop_signals.h) soon after a stop was requested, when the child has been ended.
std::optional<std::string> run_in_child_process(const std::function<std::string()>& work);

}  // namespace inkling
