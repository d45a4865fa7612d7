#include "watch/screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/strings.h"
#include "base/system_files.h"

namespace inkling {
namespace {

sigset_t answered_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH}) sigaddset(&signals, number);
  return signals;
}

// Private modes (DECSET): the alternate screen, no cursor, no wrapping at the right edge.
constexpr const char* take_screen = "\033[?1049h\033[?25l\033[?7l\033[2J";
constexpr const char* give_screen_back = "\033[?7h\033[?25h\033[?1049l";

}  // namespace

Screen::Screen() {
  if (::isatty(STDOUT_FILENO) != 1) throw Error::environment("standard output is no terminal");
  const sigset_t signals = answered_signals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) throw Error::environment(str("cannot wait for signals: ", errno_text(errno)));
  hears_keys_ = has_keyboard_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
  enter();
}

Screen::~Screen() {
  leave();
  ::close(signals_);
  const sigset_t signals = answered_signals();
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

void Screen::enter() {
  if (has_keyboard_) {
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // ISIG stays: Ctrl-C and Ctrl-Z are signals
    keys.c_cc[VMIN] = 0;
    keys.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
  }
  shown_.clear();
  shown_size_ = {};
  write(take_screen);
}

void Screen::leave() {
  write(give_screen_back);
  if (has_keyboard_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

void Screen::write(const std::string& text) {
  for (std::size_t written = 0; written < text.size() && !gone_;) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data() + written, text.size() - written);
    if (count >= 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {  // another program has made the terminal non-blocking
      pollfd ready{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&ready, 1, 100);
    } else if (errno != EINTR) {
      lose();
    }
  }
}

// As if by SIGHUP, which may come later than the error that says so.
void Screen::lose() {
  gone_ = true;
  exit_code_ = 128 + SIGHUP;
}

TerminalSize Screen::size() const {
  const TerminalSize size = terminal_size(STDOUT_FILENO);
  return {size.columns > 0 ? size.columns : 80, size.rows > 0 ? size.rows : 24};
}

void Screen::show(const std::vector<std::string>& lines) {
  const TerminalSize now = size();
  std::string text;
  if (!(now == shown_size_)) {
    text = "\033[2J";
    shown_.clear();
  }
  shown_size_ = now;
  for (std::size_t row = 0; row < std::max(lines.size(), shown_.size()); ++row) {
    const std::string line = row < lines.size() ? lines[row] : "";
    if (row < shown_.size() ? shown_[row] == line : line.empty()) continue;
    // The row is cleared first: behind a full one, clearing would take its last character.
    text += str("\033[", row + 1, ";1H\033[2K", line);
  }
  shown_ = lines;
  if (!text.empty()) write(text);
}

Wish Screen::wait(int milliseconds) {
  std::array<pollfd, 2> watched{{{signals_, POLLIN, 0}, {hears_keys_ ? STDIN_FILENO : -1, POLLIN, 0}}};
  if (gone_) return Wish::end;
  if (::poll(watched.data(), watched.size(), milliseconds) <= 0) return Wish::nothing;
  if (watched[0].revents != 0) return answer_signal();
  return answer_key();
}

Wish Screen::answer_signal() {
  signalfd_siginfo signal{};
  if (::read(signals_, &signal, sizeof signal) != sizeof signal) return Wish::nothing;
  const int number = static_cast<int>(signal.ssi_signo);
  if (number == SIGWINCH) {
    shown_size_ = {};  // a terminal that was smaller for a moment has lost what was beyond its edge
    return Wish::redraw;
  }
  if (number == SIGTSTP) {  // Ctrl-Z: the shell finds its terminal as it was, and fg comes back here
    leave();
    ::raise(SIGSTOP);
    enter();
    return Wish::redraw;
  }
  exit_code_ = number == SIGINT ? 0 : 128 + number;
  return Wish::end;
}

Wish Screen::answer_key() {
  std::array<char, 64> keys{};
  const ssize_t count = ::read(STDIN_FILENO, keys.data(), keys.size());
  if (count < 0 && errno != EINTR && errno != EAGAIN) lose();
  if (count == 0) hears_keys_ = false;  // nobody is there any more to press one
  if (count <= 0) return gone_ ? Wish::end : Wish::nothing;
  const std::string_view typed(keys.data(), static_cast<std::size_t>(count));
  if (typed.front() == '\033') return Wish::nothing;  // an arrow key, whose letters mean nothing
  if (typed.find_first_of("qQ\x03") != std::string_view::npos) return Wish::end;
  if (typed.find('\x0c') == std::string_view::npos) return Wish::nothing;
  shown_size_ = {};  // Ctrl-L: another program has written here
  return Wish::redraw;
}

}  // namespace inkling
