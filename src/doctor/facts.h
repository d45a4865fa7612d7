// What inkling-doctor knows of a machine, as plain values, and the functions that find out what the machine is. Sizes
// are in bytes, times in seconds; an empty text or optional is something that the machine does not say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/system_files.h"
#include "runtime/cpu_memory.h"

namespace inkling::doctor {

struct System {
  std::string distribution = {};  // "Debian GNU/Linux 12 (bookworm)"
  std::string family = {};        // "debian", "ubuntu": decides how things are installed
  std::string kernel = {};        // "6.1.0"
  bool is_virtual = false;
  bool is_container = false;
};

struct CacheSize {
  int level = 1;
  std::uint64_t bytes = 0;  // of one of them
};

struct Processor {
  std::string model = {};
  int threads = 0;                         // hyper-threads counted, of the machine
  int cores = 0;                           // physical cores that this process may run on
  int usable_threads = 0;                  // hyper-threads that this process may run on
  std::optional<double> quota = {};        // cores' worth of time that the control groups allow; none: all
  std::vector<CacheSize> caches = {};      // of data, one for each level
  std::optional<double> clock_limit = {};  // share of the fastest clock that is allowed, where it is less than all
  std::uint64_t fastest_clock = 0;         // kHz, where clock_limit is known
};

struct InstructionSets {
  std::string in_use = {};                  // "avx512"; empty where INKLING_INSTRUCTION_SET names one that is missing
  std::string why_none = {};                // what is wrong then
  std::vector<std::string> supported = {};  // by this processor, the best first
  std::vector<std::string> compiled = {};   // into this program
};

struct Disk {
  std::string use = {};   // "runs/ and data/"
  std::string path = {};  // of the nearest folder that is there
  std::string kind = {};  // of file system: "ext4"
  std::uint64_t total = 0, free = 0;
  std::uint64_t free_files = 0;  // how many more files there may be; 0 also where the file system does not count
  std::uint64_t all_files = 0;
  bool is_writable = true;
  std::string why_not = {};  // where it is not: "Permission denied"
};

struct Gpu {
  std::string name = {};
  std::uint64_t memory = 0, free = 0;
  int major = 0, minor = 0;  // compute capability
};

struct Graphics {
  std::vector<std::string> devices = {};  // in the machine, as the bus shows them: "NVIDIA", "AMD", "Intel"
  std::string bus_driver = {};            // of the NVIDIA device: "nvidia", "nouveau", "vfio-pci", or none
  std::string driver_version = {};        // NVIDIA's: "580.65.06"
  bool has_device_files = false;          // /dev/nvidiactl, which containers may lack
  std::string locked_by = {};             // the group that may use these files, where this person may not
  std::string why_none = {};              // in LibTorch's and our words, why no GPU can be used; empty where one can
  std::vector<Gpu> gpus = {};             // that can be used
};

struct Library {
  std::string name = {}, version = {};
  std::string path = {};  // where it was loaded from, if that says something
};

struct Libraries {
  std::vector<Library> all = {};
  std::string torch_built = {}, torch_loaded = {};  // "2.11.0"; the second is empty where its folder does not say
  std::string torch_folder = {};                    // from which it was loaded
  bool from_library_path = false;                   // because LD_LIBRARY_PATH names that folder
  std::vector<std::string> openmp = {};  // paths of all OpenMP libraries in this process: two get into each other's way
};

struct Variable {
  std::string name = {}, value = {};
};

struct Environment {
  std::vector<Variable> variables = {};  // those that change how we compute or what is loaded
  std::string locale = {};               // of characters: "C.UTF-8"; "" if none is set
  std::optional<std::uint64_t> address_space = {}, file_size = {};  // limits of this process (ulimit -v, -f)
};

struct Program {
  int process = 0;
  std::string name = {};
  double cores = 0.0;           // how many it keeps busy
  bool is_ours = true;          // whether it belongs to the person who asks
  std::string run_folder = {};  // of an inkling-train
};

struct Load {
  std::vector<Program> programs = {};  // the busiest first, without this one
  double average = 0.0;                // of the last minute
  double stolen = 0.0;                 // cores' worth of time that other virtual machines took
  double busy = 0.0;                   // cores' worth of time that was used in all, without what this one took
};

struct ProductSpeed {
  int threads = 0;
  double flops = 0.0;  // per second
};

struct Speed {
  std::string dtype = {}, device = {};      // of the products
  std::vector<ProductSpeed> products = {};  // for several numbers of threads, the last with those that auto takes
  double thread_start = 0.0;  // seconds in which the threads of auto begin work together and wait for each other
  double memory = 0.0;        // bytes per second read
};

struct Choice {
  std::string setting = {}, value = {}, reason = {};  // "runtime.threads", "2", "one for each physical core"
};

struct Choices {
  std::vector<Choice> all = {};
  std::string why_none = {};  // what resolve_runtime() refused
};

// What a run of a configuration takes on this machine.
struct Forecast {
  std::string name = {}, path = {};
  std::string why_not = {};   // why it cannot be trained here; nothing below is known then, but for memory at times
  bool lacks_memory = false;  // that is why
  bool lacks_device =
      false;  // that is why: its settings ask for a GPU, or for kernels, that this machine does not have
  std::string fits_with = {};  // then, where there are such: the settings with which it fits, as flags
  std::uint64_t parameters = 0, memory = 0, vocabulary = 0;
  std::string runs_on = {};  // "cpu, 2 threads"
  std::int64_t steps = 0, batch_size = 0, micro_batch_size = 0;
  std::string split = {};                        // of the batch over the threads: "batch", "products"
  double step_seconds = 0.0, run_seconds = 0.0;  // estimated; the run with its evaluations
  double arithmetic_share = 0.0;                 // of the estimated step; the rest is memory
  std::optional<double> measured_step = {}, measured_fastest = {}, measured_slowest = {}, measured_run = {};
  std::int64_t measured_windows = 0;  // in a measured step, where a whole one would take too long
  std::uint64_t disk = 0;             // what its checkpoints take
};

struct Facts {
  System system = {};
  Processor processor = {};
  InstructionSets instructions = {};
  SystemMemory memory = {};
  std::vector<Disk> disks = {};
  Graphics graphics = {};
  Libraries libraries = {};
  Environment environment = {};
  Load load = {};
  std::optional<Speed> speed = {};  // none where nothing can be computed
  Choices choices = {};
  std::vector<Forecast> forecasts = {};
};

// The functions below compute nothing and throw nothing. `files` holds /proc, /sys, /dev and /etc; a test invents them.

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
