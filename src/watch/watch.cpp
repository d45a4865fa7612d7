#include "watch/watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/strings.h"
#include "base/system_files.h"
#include "base/terminal_text.h"
#include "watch/frame.h"

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

// What a person or the system wants.
enum class Wish { nothing, redraw, end };

// A terminal's alternate screen with its keys, given back as it was whatever ends the program in order. While it lives,
// the terminal shows that screen without a cursor, and SIGINT, SIGTERM, SIGHUP, SIGTSTP and SIGWINCH are answered by
// wait() alone. There can be only one.
class Screen {
 public:
  // Throws Error environment if standard output is no terminal.
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  TerminalSize size() const;  // 80 x 24 where the terminal does not know

  // Shows these lines from the top, the rest of the screen empty; what has not changed is not written again.
  void show(const std::vector<std::string>& lines);

  // Waits so long for a key or a signal. `end` for q, Ctrl-C, and a signal or a terminal that ends; the exit code that
  // belongs to it is exit_code() then.
  Wish wait(int milliseconds);
  int exit_code() const { return exit_code_; }

 private:
  void enter();
  void leave();
  void write(const std::string& text);
  void lose();  // the terminal
  Wish answer_signal();
  Wish answer_key();

  int signals_ = -1;           // a signalfd
  bool has_keyboard_ = false;  // and leaves it as it was
  bool hears_keys_ = false;    // until nobody is there who could press one
  bool gone_ = false;          // the terminal
  int exit_code_ = 0;
  termios before_{};
  std::vector<std::string> shown_;
  TerminalSize shown_size_;
};

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

constexpr int milliseconds_between_looks = 500;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool can_be_drawn_on() {
  return ::isatty(STDOUT_FILENO) == 1 && environment("TERM") != "dumb" && !environment("TERM").empty();
}

// The first that is known: what was asked for, what the terminal says, what the environment says.
std::size_t first_known(std::size_t asked, std::size_t terminal, const char* variable, std::size_t otherwise) {
  if (asked > 0) return asked;
  if (terminal > 0) return terminal;
  const auto said = whole_number(environment(variable));
  return said && *said > 0 && *said <= 10'000 ? static_cast<std::size_t>(*said) : otherwise;
}

std::vector<std::string> rendered_frame(const RunView& view, const FrameForm& form, bool color) {
  std::vector<std::string> lines;
  for (const TextLine& line : make_frame(view, form, seconds_since_1970())) lines.push_back(rendered(line, color));
  return lines;
}

// A folder that is not there yet, or still empty, is waited for: who starts a run and its view together need not count
// seconds. Returns whether it has come.
bool wait_for_run(Screen& screen, const fs::path& run, Charset charset) {
  if (is_there(run) && !(is_folder(run) && names_in(run).empty())) return true;
  const auto nearest = nearest_beside(without_slash(run));
  const std::string text = str("waiting for ", run.string(), ", which is not there yet",
                               nearest ? str(" (did you mean ", nearest->string(), "?)") : "", "; q ends");
  while (!is_run_folder(run)) {
    screen.show(wrapped(printable(text, charset), screen.size().columns));
    if (screen.wait(milliseconds_between_looks) == Wish::end) return false;
  }
  return true;
}

int show_live(const fs::path& run, const WatchOptions& options, FrameForm form, bool color) {
  Screen screen;
  form.live = true;
  if (!wait_for_run(screen, run, form.charset)) return screen.exit_code();
  RunFiles files(run);
  for (Wish wish = Wish::nothing; wish != Wish::end; wish = screen.wait(milliseconds_between_looks)) {
    files.update();
    const TerminalSize size = screen.size();
    form.columns = options.columns > 0 ? std::min(options.columns, size.columns) : size.columns;
    form.rows = options.rows > 0 ? std::min(options.rows, size.rows) : size.rows;
    screen.show(rendered_frame(files.view(), form, color));
  }
  return screen.exit_code();
}

}  // namespace

int watch(const WatchOptions& options) {
  const fs::path run = options.run.empty() ? find_running("runs") : options.run;
  const bool drawn_on = can_be_drawn_on();
  const bool color = options.color.value_or(drawn_on && environment("NO_COLOR").empty());
  FrameForm form;
  form.charset = options.charset.value_or(charset_of_environment());
  if (!options.once && drawn_on) return show_live(run, options, form, color);
  const TerminalSize size = terminal_size(STDOUT_FILENO);
  form.columns = first_known(options.columns, size.columns, "COLUMNS", 80);
  form.rows = first_known(options.rows, size.rows, "LINES", 24);
  RunFiles files(run);
  files.update();
  for (const std::string& line : rendered_frame(files.view(), form, color)) std::cout << line << '\n';
  return 0;
}

}  // namespace inkling
