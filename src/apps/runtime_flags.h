// The flags of programs that open a trained model: where it runs is this machine's business, not the checkpoint's.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "config/config.h"

namespace inkling {

struct RuntimeFlags {
  std::vector<std::string> overrides;  // "runtime.device=cpu", as --set writes it
};

inline void add_runtime_flags(CLI::App& app, RuntimeFlags& flags) {
  const auto add = [&](const char* name, const std::string& setting, const char* about) {
    const auto keep = [&flags, setting](const std::string& value) { flags.overrides.push_back(setting + "=" + value); };
    app.add_option_function<std::string>(name, keep, about)->group("Where it runs");
  };
  add("--device", "runtime.device", "auto, cpu, cuda or cuda:N");
  add("--dtype", "runtime.dtype", "auto, float32 or bfloat16");
  add("--threads", "runtime.threads", "CPU threads; 0 is one per physical core");
  add("--kernels", "runtime.kernels", "auto, fused or aten");
}

// Error input as --set gives it: for values that runtime.* does not take.
inline RuntimeConfig runtime_settings(const RuntimeFlags& flags) {
  // A config needs data; this one is only read for its runtime section.
  return parse_config("data: {source: none}", "flags", flags.overrides).runtime;
}

}  // namespace inkling
