// A machine that does not exist: a folder with the /proc and /sys that it would have.
#pragma once

#include <filesystem>
#include <string>

#include "base/system_files.h"
#include "tests/temporary_folder.h"

namespace inkling::doctor {

class InventedMachine {
 public:
  const InventedMachine& says(const std::string& file, const std::string& text) const {
    folder_.write(file, text);
    return *this;
  }
  const InventedMachine& links(const std::string& file, const std::string& to) const {
    std::filesystem::create_directories((folder_ / file).parent_path());
    std::filesystem::create_symlink(to, folder_ / file);
    return *this;
  }
  SystemFiles files() const { return SystemFiles(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

// What /proc/PID/stat says of a process that has used so many ticks.
inline std::string stat_line(int process, const std::string& name, int ticks, int started = 5) {
  const std::string number = std::to_string(process);
  return number + " (" + name + ") S 1 " + number + " " + number + " 0 -1 4194560 45 25 11 9 " + std::to_string(ticks) +
         " 0 0 0 20 0 1 0 " + std::to_string(started) + " 5197 47 184 1 1 0 0\n";
}

}  // namespace inkling::doctor
