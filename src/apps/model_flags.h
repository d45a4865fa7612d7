// The flags of programs that open a trained model: which one, and where it runs, which depends on this machine and not
// on the checkpoint.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/model_weights.h"
#include "config/config.h"
#include "config/schema.h"
#include "runtime/device.h"

namespace inkling {

struct ModelFlags {
  std::string place, checkpoint;     // for find_checkpoint()
  std::string weights = "plain";     // for load_model(): "plain" or "ema"
  std::vector<std::string> runtime;  // "runtime.device=cpu", as --set writes it
};

// The flags that come before a program's own.
inline void add_model_flags(CLI::App& app, ModelFlags& flags) {
  app.add_option("RUN_OR_CHECKPOINT", flags.place, "a run folder, a checkpoint or a model folder")->required();
  app.add_option("--checkpoint", flags.checkpoint, "which one of a run (default: best)")->type_name("best|newest|STEP");
  app.add_option("--weights", flags.weights, "of training, or their average (default: plain)")
      ->check(CLI::IsMember({"plain", "ema"}).description(""))
      ->type_name("plain|ema");
}

inline SavedWeights saved_weights(const ModelFlags& flags) {
  return flags.weights == "ema" ? SavedWeights::ema : SavedWeights::plain;
}

// A flag for a setting of runtime.
inline void add_runtime_flag(CLI::App& app, ModelFlags& flags, const std::string& setting, const std::string& about) {
  const std::string path = "runtime." + setting;
  const auto keep = [&flags, path](const std::string& value) { flags.runtime.push_back(path + "=" + value); };
  app.add_option_function<std::string>("--" + setting, keep, about)
      ->type_name(values_as_type(path))
      ->group("Where it runs");
}

// The flags that come after them: all, or those of a program that chooses dtype and kernels itself.
inline void add_device_flags(CLI::App& app, ModelFlags& flags) {
  add_runtime_flag(app, flags, "device", "auto: a GPU if there is one");
  add_runtime_flag(app, flags, "threads", "CPU threads; auto is one per physical core at most");
}

inline void add_runtime_flags(CLI::App& app, ModelFlags& flags) {
  add_device_flags(app, flags);
  add_runtime_flag(app, flags, "dtype", "numbers it computes in");
  add_runtime_flag(app, flags, "kernels", "our operations or LibTorch's");
}

// Puts a refusal of "--set runtime.threads=x" or of runtime.device into the words of the flags that were typed.
inline Error in_words_of_flags(const Error& error) {
  std::string message = error.message();
  for (const std::string_view setting : {"--set runtime.", "runtime."}) {
    for (std::size_t at = 0; (at = message.find(setting, at)) != std::string::npos;) {
      message.replace(at, setting.size(), "--");
    }
  }
  return {error.kind(), message};
}

// Throws Error input for values that runtime.* does not take.
inline RuntimeConfig runtime_settings(const ModelFlags& flags) {
  try {
    // A config must name data; only the runtime section of this one is used.
    return parse_config("data: {source: none}", "flags", flags.runtime).runtime;
  } catch (const Error& error) {
    throw in_words_of_flags(error);
  }
}

// Throws what resolve_runtime() throws.
inline Runtime resolve_flags(const RuntimeConfig& runtime) {
  try {
    return resolve_runtime(runtime, Use::inference);
  } catch (const Error& error) {
    throw in_words_of_flags(error);
  }
}

}  // namespace inkling
