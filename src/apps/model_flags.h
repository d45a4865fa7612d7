// The flags of programs that open a trained model: which one, and where it runs, which depends on this machine and not
// on the checkpoint.
#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>

#include "checkpoint/model_weights.h"
#include "config/config.h"
#include "runtime/device.h"

namespace inkling {

struct ModelFlags {
  std::string place, checkpoint;  // for find_checkpoint()
  std::string weights = "plain";  // for load_model(): "plain" or "ema"
  RuntimeConfig runtime;
};

// The flags that come before a program's own.
inline void add_model_flags(CLI::App& app, ModelFlags& flags) {
  app.add_option("RUN_OR_CHECKPOINT", flags.place, "a run folder, a checkpoint or a model folder")->required();
  app.add_option("--checkpoint", flags.checkpoint, "which of a run's checkpoints (default: best)")
      ->type_name("best|newest|STEP");
  app.add_option("--weights", flags.weights, "as trained, or their moving average (default: plain)")
      ->check(CLI::IsMember({"plain", "ema"}).description(""))
      ->type_name("plain|ema");
}

inline SavedWeights saved_weights(const ModelFlags& flags) {
  return flags.weights == "ema" ? SavedWeights::ema : SavedWeights::plain;
}

// Gives a setting of runtime the value of the flag that is called as the setting is.
inline void set_runtime(ModelFlags& flags, const std::string& setting, const std::string& value) {
  Config config;
  config.runtime = flags.runtime;
  set_setting(config, "runtime." + setting, value, "--" + setting);
  flags.runtime = config.runtime;
}

// A flag for a setting of runtime.
inline void add_runtime_flag(CLI::App& app, ModelFlags& flags, const std::string& setting, const std::string& about) {
  const auto set = [&flags, setting](const std::string& value) { set_runtime(flags, setting, value); };
  app.add_option_function<std::string>("--" + setting, set, about)
      ->type_name(values_as_type("runtime." + setting))
      ->group("Where it runs");
}

// The flags that come after them: all, or those of a program that chooses dtype and kernels itself.
inline void add_device_flags(CLI::App& app, ModelFlags& flags) {
  add_runtime_flag(app, flags, "device", "auto: a GPU if there is one");
  add_runtime_flag(app, flags, "threads", "CPU threads; auto is one per physical core at most");
}

inline void add_runtime_flags(CLI::App& app, ModelFlags& flags) {
  add_device_flags(app, flags);
  add_runtime_flag(app, flags, "dtype", "the numbers it computes with");
  add_runtime_flag(app, flags, "kernels", "inkling's operations or LibTorch's");
}

// Opens the model in `folder` where the flags say. Throws what resolve_runtime() and load_model() throw.
inline LoadedModel load_model(const std::filesystem::path& folder, const ModelFlags& flags) {
  return load_model(folder, resolve_runtime(flags.runtime, Use::inference), saved_weights(flags));
}

}  // namespace inkling
