#include "checkpoint/optimizer_file.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/tensor_files.h"
#include "formats/safetensors.h"

namespace inkling {
namespace {

constexpr std::string_view format_mark = "inkling-adamw";
constexpr std::string_view format_version = "2", version_without_prefix = "1";

// "moment1.transformer.h.0.ln_1.weight": a state goes by the name that its parameter has in Hugging Face's GPT-2.
std::string tensor_name(const OptimizerState& state, const Parameter& parameter, std::string_view version) {
  return str(state.name, ".", version == version_without_prefix ? "" : "transformer.", parameter.spec.name);
}

std::string_view version_of(const SafetensorsFile& file) { return file.header().metadata.at("version"); }

[[noreturn]] void refuse(const SafetensorsFile& file, const std::string& message) {
  throw Error::input(str(file.path().string(), ": ", message, "; choose another checkpoint"));
}

std::int64_t read_steps(const SafetensorsFile& file) {
  const auto& metadata = file.header().metadata;
  const auto value = [&](const char* key) {
    const auto found = metadata.find(key);
    if (found == metadata.end()) refuse(file, str("its metadata has no ", quote(key)));
    return found->second;
  };
  if (value("format") != format_mark) refuse(file, str("it is not a file of optimizer moments (", format_mark, ")"));
  if (value("version") != format_version && value("version") != version_without_prefix) {
    refuse(file, str("it is of version ", quote(value("version")), ", and this program knows versions ",
                     version_without_prefix, " and ", format_version));
  }
  const std::string text = value("steps");
  const auto steps = whole_number(text);
  if (!steps) refuse(file, str("its metadata gives the number of steps as ", quote(text)));
  return *steps;
}

void check_tensors(const SafetensorsFile& file, const ParameterArena& arena, const Optimizer& optimizer) {
  std::vector<std::string> missing, unknown;
  std::set<std::string> known;
  for (const OptimizerState& state : optimizer.states()) {
    for (const Parameter& parameter : arena.parameters()) {
      const std::string name = tensor_name(state, parameter, version_of(file));
      known.insert(name);
      const TensorEntry* entry = file.find(name);
      if (entry == nullptr)
        missing.push_back(name);
      else
        check_tensor(file, *entry, parameter.spec.shape);
    }
  }
  if (!missing.empty()) refuse_missing(file.path(), missing);
  for (const TensorEntry& entry : file.header().tensors) {
    if (!known.contains(entry.name)) unknown.push_back(entry.name);
    if (entry.dtype != "F32") refuse(file, str("tensor ", quote(entry.name), " is ", entry.dtype, " instead of F32"));
  }
  if (!unknown.empty()) refuse_unknown(file.path(), unknown);
}

}  // namespace

void write_optimizer(const fs::path& path, const ParameterArena& arena, const Optimizer& optimizer) {
  std::vector<at::Tensor> on_host;  // until they are written
  std::vector<TensorToWrite> tensors;
  for (const OptimizerState& state : optimizer.states()) on_host.push_back(state.flat.cpu());
  for (const Parameter& parameter : arena.parameters()) {
    for (std::size_t i = 0; i < on_host.size(); ++i) {
      tensors.push_back(tensor_to_write(tensor_name(optimizer.states()[i], parameter, format_version),
                                        parameter.part_of(on_host[i])));
    }
  }
  write_safetensors(path, std::move(tensors),
                    {{"format", std::string(format_mark)},
                     {"version", std::string(format_version)},
                     {"steps", str(optimizer.steps())}});
}

std::int64_t optimizer_steps(const fs::path& folder) {
  return read_steps(SafetensorsFile(folder / "optimizer.safetensors"));
}

void load_optimizer(const fs::path& folder, const ParameterArena& arena, Optimizer& optimizer) {
  const SafetensorsFile file(folder / "optimizer.safetensors");
  const std::int64_t steps = read_steps(file);
  check_tensors(file, arena, optimizer);
  for (const OptimizerState& state : optimizer.states()) {
    for (const Parameter& parameter : arena.parameters()) {
      const at::Tensor stored = read_tensor(file, *file.find(tensor_name(state, parameter, version_of(file))));
      parameter.part_of(state.flat).copy_(stored);
    }
  }
  optimizer.set_steps(steps);
}

}  // namespace inkling
