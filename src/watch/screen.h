// A terminal's alternate screen with its keys, given back as it was whatever ends the program in order.
#pragma once

#include <termios.h>

#include <string>
#include <vector>

#include "base/terminal_text.h"

namespace inkling {

// What a person or the system wants.
enum class Wish { nothing, redraw, end };

// While it lives, the terminal shows the alternate screen without a cursor, and SIGINT, SIGTERM, SIGHUP, SIGTSTP and
// SIGWINCH are answered by wait() alone. There can be only one.
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

}  // namespace inkling
