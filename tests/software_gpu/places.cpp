// Where a program called from: return addresses while it runs, names and lines when the report is written.
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>
#include <string_view>

#include "runtime.h"

namespace software_gpu {
namespace {

constexpr int most_frames = 48;
constexpr std::size_t most_described = 24, most_of_name = 200;

struct Module {
  std::string path;
  std::uintptr_t base = 0;
  std::string symbol;  // demangled, empty where the library does not export it

  std::string file() const { return path.substr(path.rfind('/') + 1); }
  bool is_of_libtorch() const { return file().starts_with("libtorch") || file().starts_with("libc10"); }
  // Lines are asked for where it is quick and says something: not in LibTorch, CUDA and the C library.
  bool has_lines() const {
    return !is_of_libtorch() && !file().starts_with("libcu") && file().find(".so.") == std::string::npos;
  }
  // Without a name, or between an operation's function for every device and the one for this device.
  bool is_noise() const {
    return !has_lines() &&
           (symbol.empty() || symbol.find("redispatch(") != std::string::npos || symbol.starts_with("at::_ops::"));
  }
};

Module module_of(void* address) {
  Dl_info info = {};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  return {.path = info.dli_fname,
          .base = reinterpret_cast<std::uintptr_t>(info.dli_fbase),
          .symbol = info.dli_sname == nullptr ? "" : demangled(info.dli_sname)};
}

// A return address lies behind the call.
std::uintptr_t offset_of(void* address, const Module& module) {
  return reinterpret_cast<std::uintptr_t>(address) - module.base - 1;
}

std::string shortened(const std::string& text) {
  return text.size() <= most_of_name ? text : text.substr(0, most_of_name) + "…";
}

// What addr2line says of each offset, inlined functions on lines of their own. Nothing where there is no addr2line.
std::map<std::uintptr_t, std::vector<std::string>> lines_of(const std::string& path,
                                                            const std::set<std::uintptr_t>& offsets) {
  std::ostringstream command;
  command << "env -u LD_PRELOAD addr2line -Cipsfa -e '" << path << "'" << std::hex;
  for (const std::uintptr_t offset : offsets) command << " 0x" << offset;
  command << " 2>/dev/null";
  std::map<std::uintptr_t, std::vector<std::string>> lines;
  FILE* const pipe = popen(command.str().c_str(), "r");
  if (pipe == nullptr) return lines;
  char* text = nullptr;
  std::size_t capacity = 0;
  std::vector<std::string>* current = nullptr;
  for (ssize_t size; (size = getline(&text, &capacity, pipe)) > 0;) {
    std::string line(text, static_cast<std::size_t>(size - 1));
    if (line.starts_with("0x")) {  // "0xOFFSET: function at file:line"
      current = &lines[std::strtoull(line.c_str(), nullptr, 16)];
      line.erase(0, line.find(": ") + 2);
    }
    line.erase(0, line.find_first_not_of(' '));
    const bool is_noise = line.starts_with("??") || line.find(" at std_function.h:") != std::string::npos ||
                          line.find(" at invoke.h:") != std::string::npos;
    if (current != nullptr && !is_noise) current->push_back(line);
  }
  std::free(text);
  pclose(pipe);
  return lines;
}

}  // namespace

std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

Place this_place() {
  std::array<void*, most_frames> frames;
  const int depth = backtrace(frames.data(), most_frames);
  static const std::uintptr_t own = module_of(reinterpret_cast<void*>(&this_place)).base;
  Place place(frames.data(), frames.data() + depth);
  static auto& is_own = *new std::map<void*, bool>;  // dladdr() takes its time, and there are few places
  const auto lies_here = [&](void* frame) {
    const auto [at, is_new] = is_own.try_emplace(frame, false);
    if (is_new) at->second = module_of(frame).base == own;
    return at->second;
  };
  std::size_t first = 0;
  while (first < place.size() && lies_here(place[first])) ++first;
  place.erase(place.begin(), place.begin() + static_cast<std::ptrdiff_t>(first));
  return place;
}

std::vector<std::vector<std::string>> describe(const std::vector<Place>& places) {
  std::map<void*, Module> modules;
  std::map<std::string, std::set<std::uintptr_t>> offsets;
  for (const Place& place : places) {
    for (void* const frame : place) {
      const Module& module = modules.try_emplace(frame, module_of(frame)).first->second;
      if (module.has_lines()) offsets[module.path].insert(offset_of(frame, module));
    }
  }
  std::map<std::string, std::map<std::uintptr_t, std::vector<std::string>>> lines;
  for (const auto& [path, of_module] : offsets) lines[path] = lines_of(path, of_module);

  std::vector<std::vector<std::string>> described;
  for (const Place& place : places) {
    std::vector<std::string>& frames = described.emplace_back();
    for (void* const frame : place) {
      const Module& module = modules[frame];
      if (module.path.empty() || module.is_noise() || frames.size() >= most_described) continue;
      const std::vector<std::string>& known = lines[module.path][offset_of(frame, module)];
      if (known.empty() && !module.symbol.empty()) frames.push_back(module.file() + " " + shortened(module.symbol));
      for (const std::string& line : known) frames.push_back(module.file() + " " + shortened(line));
    }
  }
  return described;
}

}  // namespace software_gpu
