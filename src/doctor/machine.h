// Finds out what a machine is and has, without computing anything. `files` holds /proc, /sys, /dev and /etc; a test
// invents them. Nothing here throws: what a machine does not say is left empty.
#pragma once

#include <filesystem>
#include <string>

#include "base/system_files.h"
#include "doctor/facts.h"

namespace inkling::doctor {

System find_system(const SystemFiles& files);

// But for what this process may run on, which is the caller's to say.
Processor find_processor(const SystemFiles& files);

InstructionSets find_instruction_sets();

// What will be written below `path`, which need not exist yet.
Disk find_disk(const SystemFiles& files, const std::string& use, const std::filesystem::path& path);

// Without the GPUs that can be used, for which LibTorch must be asked (find_gpus()).
Graphics find_graphics(const SystemFiles& files);

// Loads LibTorch's CUDA half where there is a driver.
void find_gpus(const SystemFiles& files, Graphics& graphics);

// The libraries of this process.
Libraries find_libraries(const SystemFiles& files);

Environment find_environment();

// A reading of who has used how much of the processor so far; two of them give the load between.
struct LoadReading {
  struct Process {
    int process = 0;
    std::uint64_t started = 0;  // ticks since the machine started: another process may get the same number
    std::uint64_t ticks = 0;
    std::string name;
  };
  std::vector<Process> processes;
  std::uint64_t stolen = 0, busy = 0;  // ticks of all processors
  double seconds = 0.0;                // when it was taken, on any clock
};
LoadReading read_load(const SystemFiles& files);

// The programs that took at least a twentieth of a core between two readings, without process `without`.
Load find_load(const SystemFiles& files, const LoadReading& before, const LoadReading& after, int without);

}  // namespace inkling::doctor
