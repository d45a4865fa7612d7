// libinkling_core.so: the half of the library that needs LibTorch.
#include <ATen/Parallel.h>
#include <c10/core/StreamGuard.h>
#include <omp.h>
#include <xmmintrin.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/generation_config.h"
#include "checkpoint/model_weights.h"
#include "config/config.h"
#include "generate/generator.h"
#include "library/open_model.h"
#include "runtime/device.h"
#include "runtime/parallel.h"

namespace inkling {
namespace {

// MXCSR: all exceptions masked and none seen, rounding to nearest, denormal results (0x8000) and operands (0x40) are 0.
constexpr unsigned rounding_mode = 0x1f80 | 0x8000 | 0x40;

// Several calls may be at work, in threads of their own: what holds for the process is the host's before the first of
// them and after the last.
struct CallsAtWork {
  std::mutex mutex;
  int count = 0;
  Determinism before;
  int threads_before = 0;  // LibTorch's, which a thread begins with
};

CallsAtWork& calls_at_work() {
  static CallsAtWork calls;
  return calls;
}

// Calls on a GPU take turns, and queue on one stream, whichever threads they come from and whichever models they are
// of: while one of them records, work of another would be recorded too or end the recording, and recordings share
// memory (Backend::record), so what is still queued of one must be done before the next.
std::mutex& turns_on_gpu() {
  static std::mutex turns;
  return turns;
}

// Returns the library's stream of a GPU; none of the CPU.
std::optional<c10::Stream> library_stream(at::Device device) {
  if (computes_with_threads(device)) return std::nullopt;
  static std::map<at::DeviceIndex, std::optional<c10::Stream>> streams;
  const std::lock_guard lock(turns_on_gpu());
  std::optional<c10::Stream>& stream = streams[device.index()];
  if (!stream) stream = own_stream(device);
  return stream;
}

// What resolve_runtime() sets for good in a program, set for the time of a call by somebody else's program.
//
// While it lives, the calling thread and its OpenMP threads round as a program of inkling's does, whatever the host has
// set: tiny numbers become 0, and no exception of arithmetic is raised. LibTorch has the runtime's number of threads
// and its determinism, and a GPU's work goes to `stream`, if the calling thread has its turn. Afterwards all of this is
// as before, also what the host has set while it was outside(). It takes microseconds, so it belongs around a call, not
// around a token.
class ScopedRuntime {
 public:
  ScopedRuntime(const Runtime& runtime, const std::optional<c10::Stream>& stream);
  ~ScopedRuntime() { leave(); }
  ScopedRuntime(const ScopedRuntime&) = delete;
  ScopedRuntime& operator=(const ScopedRuntime&) = delete;

  // Returns what `call`, a function of the host's, returns, called with what the host has set.
  template <typename Call>
  auto outside(const Call& call) {
    struct Back {
      ScopedRuntime& scope;
      ~Back() { scope.enter(); }
    };
    leave();
    const Back back{*this};
    return call();
  }

 private:
  void enter();
  void leave();

  int threads_;
  Determinism determinism_;
  std::optional<c10::Stream> stream_;
  // The host's.
  int threads_before_ = 0, omp_threads_before_ = 0;
  std::vector<unsigned> modes_before_;  // of each thread
  std::unique_lock<std::mutex> turn_;   // on a GPU
  std::optional<c10::StreamGuard> stream_before_;
};

ScopedRuntime::ScopedRuntime(const Runtime& runtime, const std::optional<c10::Stream>& stream)
    : threads_(runtime.threads), determinism_(determinism_of(runtime)), stream_(stream) {
  enter();
}

void ScopedRuntime::enter() {
  if (stream_) turn_ = std::unique_lock(turns_on_gpu());
  omp_threads_before_ = omp_get_max_threads();
  threads_before_ = at::get_num_threads();  // which sets OpenMP's number where LibTorch was not used before
  CallsAtWork& calls = calls_at_work();
  {
    const std::lock_guard lock(calls.mutex);
    if (calls.count++ == 0) {
      calls.before = determinism();
      calls.threads_before = threads_before_;
    }
    set_determinism(determinism_);
  }
  if (threads_ != threads_before_) at::set_num_threads(threads_);
  modes_before_.assign(static_cast<std::size_t>(threads_), _mm_getcsr());  // also of a thread that leave() alone has
  in_all_threads([&](int thread, int) {
    modes_before_[static_cast<std::size_t>(thread)] = _mm_getcsr();
    _mm_setcsr(rounding_mode);
  });
  if (stream_) stream_before_.emplace(*stream_);
}

void ScopedRuntime::leave() {
  stream_before_.reset();
  in_all_threads([&](int thread, int) { _mm_setcsr(modes_before_[static_cast<std::size_t>(thread)]); });
  if (threads_ != threads_before_) at::set_num_threads(threads_before_);
  CallsAtWork& calls = calls_at_work();
  {
    const std::lock_guard lock(calls.mutex);
    if (--calls.count == 0) {
      set_determinism(calls.before);
      if (threads_before_ != calls.threads_before) at::set_num_threads(calls.threads_before);
    }
  }
  omp_set_num_threads(omp_threads_before_);
  turn_ = {};
}

RuntimeConfig runtime_config(const LoadOptions& options) {
  Config config;
  set_setting(config, "runtime.device", options.device, "device");
  set_setting(config, "runtime.dtype", options.dtype, "dtype");
  set_setting(config, "runtime.threads", options.threads ? str(*options.threads) : "auto", "threads");
  return config.runtime;
}

SamplingSettings sampling_settings(const SampleOptions& options, const GenerationConfig& defaults) {
  SamplingSettings sampling;
  const auto take = [](auto& setting, const auto& asked, const auto& usual) {
    setting = asked ? *asked : usual.or_else(setting);
  };
  take(sampling.temperature, options.temperature, defaults.temperature);
  take(sampling.top_k, options.top_k, defaults.top_k);
  take(sampling.top_p, options.top_p, defaults.top_p);
  take(sampling.min_p, options.min_p, defaults.min_p);
  take(sampling.repetition_penalty, options.repetition_penalty, defaults.repetition_penalty);
  return sampling;
}

struct Core : OpenModel {
  Core(LoadedModel model, std::optional<c10::Stream> own)
      : loaded(std::move(model)),
        usual(read_generation_config(loaded.folder, loaded.model->shape().vocab_size)),
        stream(own) {}

  std::vector<std::string> samples(const std::string& prompt, std::uint64_t count,
                                   const SampleOptions& options) override {
    if (!usual.refused.empty()) throw Error::input(usual.refused);
    const GenerationSettings settings{.count = count,
                                      .max_tokens = options.max_tokens,
                                      .sampling = sampling_settings(options, usual),
                                      .stops = options.stops,
                                      .seed = options.seed,
                                      .ends = usual.ends,
                                      .names = options.special ? NamesInPrompt::tokens : NamesInPrompt::text,
                                      .ignore_end = options.ignore_end};
    check_settings(settings);
    ScopedRuntime scope(loaded.runtime, stream);
    const auto watch = [&](std::size_t, const Sample&, std::string_view added, bool) {
      return !options.on_text || added.empty() || scope.outside([&] { return options.on_text(added); });
    };
    std::vector<std::string> texts;
    const std::vector<std::string> prompts{prompt};
    for (Sample& sample : generate(loaded, prompts, settings, watch)) texts.push_back(std::move(sample.text));
    return texts;
  }

  LoadedModel loaded;
  GenerationConfig usual;
  std::optional<c10::Stream> stream;
};

}  // namespace

OpenModel* inkling_open_model(const std::filesystem::path& folder, const LoadOptions& options) {
  const Runtime runtime = choose_runtime(runtime_config(options), Use::inference);
  const std::optional<c10::Stream> stream = library_stream(runtime.device);
  const ScopedRuntime scope(runtime, stream);
  LoadedModel model = load_model(find_checkpoint(folder, options.checkpoint), runtime);
  require_tokenizer(model);
  return std::make_unique<Core>(std::move(model), stream).release();
}

}  // namespace inkling
