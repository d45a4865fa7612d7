// For tests/watch/terminal_test.py: a progress bar that does what the lines of a file or a pipe say: "update 500" draws
// it at 500 of 1000, "log TEXT" prints a line as training does, "clear" wipes it. Each is answered on standard output.
#include <chrono>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/progress.h"

int main(int, char** argv) {
  inkling::Progress progress("training", 1000, "steps");
  std::this_thread::sleep_for(std::chrono::milliseconds(1010));  // it stays silent for the first second
  std::ifstream commands(argv[1]);
  for (std::string line; std::getline(commands, line);) {
    if (line.starts_with("update ")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(110));  // at most ten draws a second
      progress.update(std::stoull(line.substr(7)));
    } else {
      progress.clear();
      if (line.starts_with("log ")) inkling::log_info(line.substr(4));
    }
    std::cout << "done\n" << std::flush;
  }
}
