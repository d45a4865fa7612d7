// Runs one of our programs as a person would.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace inkling {

struct Outcome {
  int code = -1;  // exit code; -1 if a signal ended it
  std::string out, err;
};

// `command_line` is for the shell and begins with the program's name; standard input is empty unless it says otherwise.
inline Outcome run_command(const std::filesystem::path& folder, const std::string& command_line) {
  const std::filesystem::path errors = folder / "stderr.txt";
  const std::string command = "cd '" + folder.string() + "' && export PATH='" INKLING_BIN_DIR "':\"$PATH\" && { " +
                              command_line + "; } 2> '" + errors.string() + "' < /dev/null";
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  Outcome outcome;
  std::array<char, 4096> block;
  for (std::size_t count; (count = std::fread(block.data(), 1, block.size(), pipe)) > 0;) {
    outcome.out.append(block.data(), count);
  }
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream err(errors);
  outcome.err.assign(std::istreambuf_iterator<char>(err), {});
  return outcome;
}

// The program has printed nothing but an error that has all these parts.
inline void expect_refusal(const Outcome& outcome, const std::vector<std::string>& parts, int code = 2) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  for (const std::string& part : parts) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " is not in: " << outcome.err;
  }
}

}  // namespace inkling
