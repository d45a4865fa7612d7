#include "checkpoint/optimizer_file.h"

#include <charconv>
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
constexpr std::string_view format_version = "1";

std::string tensor_name(int moment, const Parameter& parameter) {
  return str("moment", moment, ".", parameter.spec.name);
}

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
  if (value("version") != format_version) {
    refuse(file,
           str("it is of version ", quote(value("version")), ", and this program knows version ", format_version));
  }
  const std::string text = value("steps");
  std::int64_t steps = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (code != std::errc() || end != text.data() + text.size() || steps < 0) {
    refuse(file, str("its metadata gives the number of steps as ", quote(text)));
  }
  return steps;
}

void check_tensors(const SafetensorsFile& file, const ParameterArena& arena) {
  std::vector<std::string> missing, unknown;
  std::set<std::string> known;
  for (const int moment : {1, 2}) {
    for (const Parameter& parameter : arena.parameters()) {
      const std::string name = tensor_name(moment, parameter);
      known.insert(name);
      const TensorEntry* entry = file.find(name);
      if (entry == nullptr)
        missing.push_back(name);
      else
        check_tensor(file, *entry, parameter.spec.shape);
    }
  }
  if (!missing.empty()) refuse_missing(file, missing);
  for (const TensorEntry& entry : file.header().tensors) {
    if (!known.contains(entry.name)) unknown.push_back(entry.name);
    if (entry.dtype != "F32") refuse(file, str("tensor ", quote(entry.name), " is ", entry.dtype, " instead of F32"));
  }
  if (!unknown.empty()) refuse_unknown(file, unknown);
}

}  // namespace

void write_optimizer(const fs::path& path, const ParameterArena& arena, const AdamW& optimizer) {
  const at::Tensor moment1 = optimizer.moment1().cpu();
  const at::Tensor moment2 = optimizer.moment2().cpu();
  std::vector<TensorToWrite> tensors;
  for (const Parameter& parameter : arena.parameters()) {
    tensors.push_back(tensor_to_write(tensor_name(1, parameter), moment1, parameter));
    tensors.push_back(tensor_to_write(tensor_name(2, parameter), moment2, parameter));
  }
  write_safetensors(path, std::move(tensors),
                    {{"format", std::string(format_mark)},
                     {"version", std::string(format_version)},
                     {"steps", str(optimizer.steps())}});
}

std::int64_t optimizer_steps(const fs::path& folder) {
  return read_steps(SafetensorsFile(folder / "optimizer.safetensors"));
}

void load_optimizer(const fs::path& folder, const ParameterArena& arena, AdamW& optimizer) {
  const SafetensorsFile file(folder / "optimizer.safetensors");
  const std::int64_t steps = read_steps(file);
  check_tensors(file, arena);
  for (const Parameter& parameter : arena.parameters()) {
    for (const int moment : {1, 2}) {
      const at::Tensor flat = moment == 1 ? optimizer.moment1() : optimizer.moment2();
      const at::Tensor stored = read_tensor(file, *file.find(tensor_name(moment, parameter)));
      flat.narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape).copy_(stored);
    }
  }
  optimizer.set_steps(steps);
}

}  // namespace inkling
