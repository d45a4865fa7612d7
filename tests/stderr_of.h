// What an action writes to stderr where that is a terminal, or a pipe.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace inkling {

inline bool terminals_exist() { return ::access("/dev/ptmx", R_OK | W_OK) == 0; }

// What `action`, in a process of its own, writes to a stderr that is a terminal of so many columns (0: it does not
// know) or a pipe.
template <typename Action>
std::string stderr_of(bool terminal, bool no_color, Action action, unsigned short columns = 0) {
  int reading = -1, writing = -1;
  if (terminal) {
    reading = ::posix_openpt(O_RDWR | O_NOCTTY);
    ::grantpt(reading);
    ::unlockpt(reading);
    writing = ::open(::ptsname(reading), O_RDWR | O_NOCTTY);
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(writing, TIOCSWINSZ, &size);
  } else {
    int ends[2];
    if (::pipe(ends) != 0) return "no pipe";
    reading = ends[0], writing = ends[1];
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(writing, STDERR_FILENO);
    no_color ? ::setenv("NO_COLOR", "1", 1) : ::unsetenv("NO_COLOR");
    action();
    ::_exit(0);
  }
  ::close(writing);
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = ::read(reading, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  ::close(reading);
  ::waitpid(child, nullptr, 0);
  return text;
}

}  // namespace inkling
