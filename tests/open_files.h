// A limit of open files, as a process with much open meets it.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <functional>

namespace inkling {

// Calls `action`, which throws nothing, while this process may open `more` files and no other one.
inline void with_open_files(int more, const std::function<void()>& action) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const int free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(free);
  const rlimit limit = {static_cast<rlim_t>(free + more), before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &limit);
  action();
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace inkling
