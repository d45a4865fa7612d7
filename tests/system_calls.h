// Lets a test see the calls by which our code changes the file system, make one fail, or end the process in front of
// it; and records them (tests/durability.h reads that).
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <string_view>

namespace inkling {

// Called in front of every rename, renameat2, mkdir, rmdir, unlink, unlinkat, fsync and flock of this program with the
// path that it changes. Returns 0 to let the call happen, the errno that it is to fail with, or skip_call to let it
// succeed without having happened.
inline constexpr int skip_call = -1;
extern std::function<int(std::string_view call, const std::string& path)> on_system_call;

// From now on every open that may create, write, fsync, mkdir and rename that went well becomes a line of this file:
// "create", "write", "sync" or "rename", the path, and of a rename the new one, with a tab behind each. Null: no
// longer.
void record_system_calls(const char* path);

// Sets on_system_call for as long as it lives.
class SystemCalls {
 public:
  explicit SystemCalls(std::function<int(std::string_view, const std::string&)> watch) {
    on_system_call = std::move(watch);
  }
  ~SystemCalls() { on_system_call = nullptr; }
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;
};

// For n = 1, 2, … `prepare()` is called, a child process does `action()` and is killed in front of its n-th system
// call, and `check(n)` looks at what it left; until a child gets to its end. Returns how many were killed. Some calls
// fail in the child: `fails` says as on_system_call does which. Nothing is synced: a kill does not lose what was
// written, only a power cut does.
template <typename Prepare, typename Action, typename Check>
int kill_at_every_step(const Prepare& prepare, const Action& action, const Check& check,
                       int (*fails)(std::string_view call)) {
  const auto skip_syncs = [](std::string_view call) { return call == "fsync" ? skip_call : 0; };
  const SystemCalls in_parent([&](std::string_view call, const std::string&) { return skip_syncs(call); });
  for (int killed = 0;; ++killed) {
    prepare();
    const pid_t child = ::fork();
    if (child == 0) {
      int left = killed;
      on_system_call = [&](std::string_view call, const std::string&) {
        if (left-- == 0) ::raise(SIGKILL);
        return fails(call) != 0 ? fails(call) : skip_syncs(call);
      };
      action();
      std::_Exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    check(killed + 1);
    if (WIFSIGNALED(status)) continue;
    EXPECT_EQ(status, 0);
    return killed;
  }
}

}  // namespace inkling
