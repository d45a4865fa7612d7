#include "runtime/profile.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>

#include "base/files.h"
#include "base/log.h"
#include "base/strings.h"

namespace inkling {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

}  // namespace

Profile::Profile(const std::filesystem::path& file, const Runtime& runtime) : file_(file), runtime_(runtime) {
  if (!file_.empty()) write_file(file_, "");
}

Profile::~Profile() {
  if (recording_) finish();
  if (!file_.empty() && steps_ < skipped_steps) {
    log_warning(str("profile: the run ended before step ", skipped_steps, ", so ", file_.string(), " stays empty"));
  }
}

void Profile::step_done() {
  if (file_.empty()) return;
  ++steps_;
  if (steps_ == skipped_steps) {
    std::set<ActivityType> activities = {ActivityType::CPU};
    if (runtime_.device.is_cuda()) activities.insert(ActivityType::CUDA);
    const profiler::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
    profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(config, activities);
    recording_ = true;
  } else if (recording_ && steps_ == skipped_steps + profiled_steps) {
    finish();
  }
}

void Profile::finish() {
  recording_ = false;
  synchronize(runtime_.device);
  profiler::disableProfiler()->save(file_.string());
  log_info(str("profile: ", steps_ - skipped_steps, " steps are in ", file_.string(),
               "; open it in ui.perfetto.dev or chrome://tracing"));
}

}  // namespace inkling
