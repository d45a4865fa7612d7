// Installed as bin/inkling-train and under the name of every other program that needs LibTorch: finds LibTorch, and
// becomes the program of that name in lib/inkling/. So the programs run wherever pip has put LibTorch. It links none of
// it.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/strings.h"
#include "library/torch_folder.h"

namespace {

using namespace inkling;

// Returns only by throwing.
[[noreturn]] void launch(char** argv) {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) throw Error::environment("/proc is not mounted, which tells programs where they are; mount it");
  const std::string name = self.filename().string();
  const std::filesystem::path program = self.parent_path().parent_path() / "lib/inkling" / name;
  const std::string libraries = require_torch(name, INKLING_TORCH_VERSION) / "lib";
  const char* const value = std::getenv("LD_LIBRARY_PATH");
  const std::string others = value == nullptr ? "" : value;
  ::setenv("LD_LIBRARY_PATH", (others.empty() ? libraries : str(libraries, ":", others)).c_str(), 1);
  ::setenv("INKLING_USERS_LIBRARY_PATH", others.c_str(), 1);  // for inkling-doctor, which blames nobody for ours
  ::execv(program.c_str(), argv);
  throw Error::environment(
      str("cannot start ", program.string(), ": ", std::strerror(errno), "; install inkling again as a whole"));
}

}  // namespace

int main(int, char** argv) {
  try {
    launch(argv);
  } catch (const inkling::Error& error) {
    std::cerr << "error: " << error.message() << '\n';
    return static_cast<int>(error.kind());
  } catch (const std::exception& error) {
    std::cerr << "error: internal error: " << error.what() << '\n';
    return static_cast<int>(inkling::ErrorKind::internal);
  }
}
