// read_load() and find_load() of machine.h.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <sstream>
#include <utility>

#include "base/strings.h"
#include "doctor/machine.h"

namespace inkling::doctor {
namespace {

constexpr double least_share = 0.05;  // of a core; what takes less is in nobody's way

bool is_number(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

std::filesystem::path folder_of(int process) { return std::filesystem::path("proc") / str(process); }

// A line "4711 (name that may hold anything) S 1 …": the 14th and 15th fields are ticks in the program and in the
// system for it, the 22nd is when it started.
std::optional<LoadReading::Process> read_process(const SystemFiles& files, int number) {
  const std::string line = files.text(folder_of(number) / "stat").value_or("");
  const std::size_t open = line.find('('), close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  std::istringstream words(line.substr(close + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) words >> skipped;
  std::uint64_t in_program = 0, in_system = 0, started = 0;
  words >> in_program >> in_system;
  for (int field = 16; field < 22; ++field) words >> skipped;
  if (!(words >> started)) return std::nullopt;
  return LoadReading::Process{.process = number,
                              .started = started,
                              .ticks = in_program + in_system,
                              .name = line.substr(open + 1, close - open - 1)};
}

// A name that fits into a line, whatever a program calls itself.
std::string plain(std::string name) {
  constexpr std::size_t longest = 40;
  for (char& byte : name) {
    if (byte < ' ' || byte > '~') byte = '?';
  }
  return name.size() > longest ? name.substr(0, longest - 3) + "..." : name;
}

// "python3 train.py" rather than "python3".
std::string name_of(const SystemFiles& files, const LoadReading::Process& process) {
  std::vector<std::string> words;
  std::istringstream line(files.text(folder_of(process.process) / "cmdline").value_or(""));
  for (std::string word; words.size() < 2 && std::getline(line, word, '\0');) words.push_back(word);
  if (words.empty()) return plain(process.name);
  const auto last_part = [](const std::string& path) { return std::filesystem::path(path).filename().string(); };
  std::string name = last_part(words[0]);
  const bool reads_a_script = name.starts_with("python") || name == "bash" || name == "sh" || name == "perl";
  if (reads_a_script && words.size() > 1 && !words[1].starts_with('-')) name += " " + last_part(words[1]);
  return plain(name.empty() ? process.name : name);
}

// The folder whose .lock the process has open.
std::string run_folder_of(const SystemFiles& files, int process) {
  const std::filesystem::path open_files = folder_of(process) / "fd";
  for (const std::string& name : files.names(open_files)) {
    const std::filesystem::path file = files.link(open_files / name);
    if (file.filename() == ".lock") return file.parent_path().string();
  }
  return "";
}

bool may_signal(const SystemFiles& files, int process) {
  struct stat status{};
  if (::geteuid() == 0) return true;
  return ::stat(files.place(folder_of(process)).c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

}  // namespace

LoadReading read_load(const SystemFiles& files) {
  LoadReading reading;
  std::istringstream processors(files.line("proc/stat"));  // cpu user nice system idle iowait irq softirq steal …
  std::string word;
  std::uint64_t user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0, stolen = 0;
  if (processors >> word >> user >> nice >> system >> idle >> waiting >> interrupts >> soft >> stolen) {
    reading.busy = user + nice + system + interrupts + soft;
    reading.stolen = stolen;
  }
  for (const std::string& name : files.names("proc")) {
    if (!is_number(name) || name.size() > 9) continue;
    if (auto process = read_process(files, std::stoi(name))) reading.processes.push_back(std::move(*process));
  }
  reading.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  return reading;
}

Load find_load(const SystemFiles& files, const LoadReading& before, const LoadReading& after, int without) {
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK)) * std::max(after.seconds - before.seconds, 1e-3);
  const auto cores = [&](std::uint64_t from, std::uint64_t to) {
    return to > from ? static_cast<double>(to - from) / ticks : 0.0;
  };
  std::map<std::pair<int, std::uint64_t>, std::uint64_t> ticks_before;
  for (const auto& process : before.processes) ticks_before[{process.process, process.started}] = process.ticks;
  Load load{.stolen = cores(before.stolen, after.stolen), .busy = cores(before.busy, after.busy)};
  std::istringstream(files.line("proc/loadavg")) >> load.average;
  for (const auto& process : after.processes) {
    const auto known = ticks_before.find({process.process, process.started});
    if (known == ticks_before.end()) continue;
    const double share = cores(known->second, process.ticks);
    if (process.process == without) {
      load.busy = std::max(load.busy - share, 0.0);
      continue;
    }
    const bool is_run = process.name == "inkling-train";
    if (share < least_share && !is_run) continue;
    load.programs.push_back({.process = process.process,
                             .name = name_of(files, process),
                             .cores = share,
                             .is_ours = may_signal(files, process.process),
                             .run_folder = is_run ? run_folder_of(files, process.process) : ""});
  }
  std::stable_sort(load.programs.begin(), load.programs.end(),
                   [](const Program& a, const Program& b) { return a.cores > b.cores; });
  return load;
}

}  // namespace inkling::doctor
