// What tests of files share: a folder of their own, the error an action throws, and what its message holds.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files.h"

namespace inkling {

// A fresh folder, removed with all it holds when the test ends.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static int counter = 0;
    path_ = std::filesystem::path(testing::TempDir()) /
            ("inkling-test-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
    std::filesystem::create_directories(path_);
    path_ = std::filesystem::canonical(path_);  // as the system names it, whatever TMPDIR says
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  // Writes a file below the folder and returns its path as settings name it.
  std::string write(const std::string& name, std::string_view text) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    write_file(file, text);
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::filesystem::path& path) { return read_small_file(path); }

// The inkling::Error that `action` throws; none if it returns. Any other exception fails the test by escaping.
template <typename Action>
std::optional<Error> error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// The message of the Error of kind input that `action` must throw.
template <typename Action>
std::string input_error(Action&& action) {
  const std::optional<Error> error = error_of(action);
  if (!error) {
    ADD_FAILURE() << "no error was thrown";
    return "";
  }
  EXPECT_EQ(error->kind(), ErrorKind::input) << error->message();
  return error->message();
}

// So that a failed comparison shows both texts.
inline testing::AssertionResult contains(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << text << "\" does not contain \"" << part << "\"";
}

}  // namespace inkling
