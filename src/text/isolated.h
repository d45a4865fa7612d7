// Work that may end the process it runs in, done in one that may end.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace inkling {

// Runs `work` in a child process and returns the bytes it returned; nothing if that process exited or crashed without
// an answer. What it prints is dropped, and its memory goes back to the system. Error environment if no process can be
// started, or if this one was ended from outside (by Ctrl-C, or for want of memory).
std::optional<std::string> run_isolated(const std::function<std::string()>& work);

}  // namespace inkling
