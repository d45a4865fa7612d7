// libinkling_core.so: the half of the library that needs LibTorch.
#include "base/error.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/generation_config.h"
#include "checkpoint/model_weights.h"
#include "config/config.h"
#include "generate/generator.h"
#include "library/open_model.h"
#include "runtime/device.h"
#include "runtime/scoped_runtime.h"

namespace inkling {
namespace {

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
  const std::optional<c10::Stream> stream = own_stream(runtime.device);
  const ScopedRuntime scope(runtime, stream);
  LoadedModel model = load_model(find_checkpoint(folder, options.checkpoint), runtime);
  require_tokenizer(model);
  return std::make_unique<Core>(std::move(model), stream).release();
}

}  // namespace inkling
