// Where LibTorch is on this machine. It comes with Python's package torch, of which there may be several or none. The
// search looks at folders and starts no Python, so it takes less than a millisecond.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace inkling {

struct TorchSearch {
  std::filesystem::path folder;                  // of the package; its lib/ holds libtorch_cpu.so. Empty: there is none
  std::vector<std::string> other_versions;       // found on the way: "/usr/lib/python3/dist-packages/torch (2.9.1)"
  std::vector<std::filesystem::path> looked_in;  // where Python packages could be, in order
};

// Returns the first LibTorch of this version ("2.11.0", also as "2.11.0+cpu") in: the active virtual environment
// ($VIRTUAL_ENV, $CONDA_PREFIX), those to which the python3 and python of $PATH belong, the person's own packages
// (~/.local), the system's, and inkling's cache ($INKLING_CACHE). `root` stands for "/" where the system's are looked
// for. Where $INKLING_TORCH names a folder, only that one is looked at. Throws Error environment if it is no LibTorch
// of this version.
TorchSearch find_torch(std::string_view version, const std::filesystem::path& root = "/");

// Does so, and returns the folder. Throws Error environment if there is none, which names the folders that were looked
// into and the command that installs it. `who` needs it: "inkling-train".
std::filesystem::path require_torch(std::string_view who, std::string_view version,
                                    const std::filesystem::path& root = "/");

}  // namespace inkling
