#include "base/own_folder.h"

#include <dlfcn.h>

#include <string_view>
#include <system_error>

namespace inkling {

std::filesystem::path own_folder() {
  std::error_code ignored;
  Dl_info self{};
  // For a program the loader has only the name by which it was called.
  const bool found = dladdr(reinterpret_cast<const void*>(&own_folder), &self) != 0 && self.dli_fname != nullptr;
  if (found && std::string_view(self.dli_fname).ends_with(".so")) {
    return std::filesystem::canonical(self.dli_fname, ignored).parent_path();
  }
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

std::filesystem::path installed_share() {
  std::error_code ignored;
  const std::filesystem::path folder = own_folder();
  // Programs are in bin/ and in lib/inkling/.
  for (const std::filesystem::path& prefix : {folder.parent_path(), folder.parent_path().parent_path()}) {
    if (std::filesystem::is_directory(prefix / "share/inkling/configs", ignored)) return prefix / "share/inkling";
  }
  return {};
}

}  // namespace inkling
