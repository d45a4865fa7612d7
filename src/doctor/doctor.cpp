#include "doctor/doctor.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <map>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/strings.h"
#include "base/thread_choice.h"
#include "config/config.h"
#include "doctor/facts.h"
#include "doctor/forecast.h"
#include "runtime/device.h"

namespace inkling::doctor {
namespace {

namespace fs = std::filesystem;

constexpr double seconds_for_each = 5;           // of timed steps
constexpr std::chrono::milliseconds watch{500};  // during which others' work is seen

// The folder in which the environment of the build is kept.
fs::path cache_folder() {
  const auto variable = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  if (!variable("INKLING_CACHE").empty()) return variable("INKLING_CACHE");
  const std::string caches = variable("XDG_CACHE_HOME");
  return (caches.empty() ? fs::path(variable("HOME")) / ".cache" : fs::path(caches)) / "inkling";
}

// Nobody makes a missing folder for temporary files, as runs/ and data/ are made.
Disk find_temporary_disk(const SystemFiles& files) {
  const char* const asked = std::getenv("TMPDIR");
  const fs::path folder = asked == nullptr || *asked == '\0' ? "/tmp" : asked;
  Disk disk = find_disk(files, "TMPDIR", folder);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    disk.path = folder.string();
    disk.is_writable = false;
    disk.why_not = "there is no such folder";
  }
  return disk;
}

std::vector<Disk> find_disks(const SystemFiles& files) {
  std::error_code ignored;
  std::vector<Disk> disks = {find_disk(files, "runs/", "runs"), find_disk(files, "data/", "data")};
  disks.push_back(find_temporary_disk(files));
  if (Disk cache = find_disk(files, "the build's cache", cache_folder()); fs::exists(cache_folder(), ignored)) {
    cache.is_writable = true;  // it is read; only building writes there
    disks.push_back(cache);
  }
  return disks;
}

Facts find_machine() {
  const SystemFiles files;
  const LoadReading before = read_load(files);
  Facts facts{.system = find_system(files),
              .processor = find_processor(files),
              .instructions = find_instruction_sets(),
              .memory = system_memory(files),
              .disks = find_disks(files),
              .graphics = find_graphics(files),
              .libraries = find_libraries(files),
              .environment = find_environment()};
  const ThreadLimits limits = find_thread_limits(files);
  facts.processor.cores = limits.cores;
  facts.processor.usable_threads = limits.processors;
  std::this_thread::sleep_for(watch);
  facts.load = find_load(files, before, read_load(files), ::getpid());
  find_gpus(files, facts.graphics);
  return facts;
}

// Measures each combination of device and dtype once.
class Speeds {
 public:
  explicit Speeds(const Facts& facts) : facts_(facts) {}

  const Speed& of(const Runtime& runtime) {
    const std::string name = str(runtime.device.str(), " ", runtime.dtype_name());
    const auto found = known_.find(name);
    return found != known_.end() ? found->second : known_.emplace(name, measure_speed(runtime, facts_)).first->second;
  }

 private:
  const Facts& facts_;
  std::map<std::string, Speed> known_;
};

struct NamedConfig {
  std::string path;
  Config config;
};

std::vector<NamedConfig> load_all(const Examination& examination) {
  std::error_code ignored;
  const std::vector<std::string> paths =
      examination.configs.empty() ? shipped_configs(fs::read_symlink("/proc/self/exe", ignored)) : examination.configs;
  std::vector<NamedConfig> configs;
  for (const std::string& path : paths) configs.push_back({path, load_config(path, examination.overrides)});
  return configs;
}

void measure(const ExpectedRun& run, Forecast& forecast) {
  log_info(str("timing ", forecast.name, " …"));
  try {
    measure_run(run, forecast, seconds_for_each);
  } catch (const GpuError& error) {
    forecast.why_not = explain_gpu_error(error.what()).value_or(error).message();
  } catch (const Error& error) {
    forecast.why_not = error.message();
  } catch (const std::exception& error) {
    const auto of_gpu = explain_gpu_error(error.what());
    if (!of_gpu) throw;
    forecast.lacks_memory = is_lack_of_memory(error);
    forecast.why_not =
        forecast.lacks_memory ? "the GPU's memory was too small for it when it was tried" : of_gpu->message();
  }
}

void forecast_all(const std::vector<NamedConfig>& configs, bool measured, Speeds& speeds, Facts& facts) {
  const DeviceChoice device = resolved_from(resolve_runtime({})).device;
  for (const auto& [path, config] : configs) {
    const ExpectedRun run = expect_run(config, device);
    const bool can = run.why_not.empty();
    facts.forecasts.push_back(
        forecast_run(run, path, can ? std::optional(speeds.of(run.runtime)) : std::nullopt, facts.processor));
    if (can && measured) measure(run, facts.forecasts.back());
  }
}

}  // namespace

std::vector<std::string> shipped_configs(const fs::path& program) {
  const fs::path folder = program.parent_path();
  for (const fs::path& place :
       {folder.parent_path().parent_path() / "configs", installed_share() / "configs", fs::path("configs")}) {
    std::set<std::string> found;
    std::error_code error;
    for (fs::directory_iterator entry(place, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
      if (entry->path().extension() == ".yaml") found.insert(entry->path().string());
    }
    if (!found.empty()) return {found.begin(), found.end()};
  }
  return {};
}

Facts examine(const Examination& examination) {
  const std::vector<NamedConfig> configs = load_all(examination);
  Facts facts = find_machine();
  try {
    const Runtime runtime = resolve_runtime({});
    facts.choices = explain_choices(runtime, facts);
    Speeds speeds(facts);
    facts.speed = speeds.of(runtime);
    forecast_all(configs, examination.measure, speeds, facts);
  } catch (const Error& error) {
    facts.choices.why_none = error.message();
  } catch (const std::exception& error) {  // another program holds it, which the facts say
    if (!is_lack_of_memory(error)) throw;
    log_warning("the GPU's memory is too small to measure its speed");
  }
  return facts;
}

}  // namespace inkling::doctor
