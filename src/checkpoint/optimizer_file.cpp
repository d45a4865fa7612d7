#include "checkpoint/optimizer_file.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/file_tensors.h"
#include "formats/safetensors.h"

namespace inkling {
namespace {

constexpr std::string_view format_version = "2", version_without_prefix = "1";

// "inkling-muon"
std::string format_mark(OptimizerName name) { return str("inkling-", word_of(name)); }

// "moment1.transformer.h.0.ln_1.weight": a state goes by the name that its parameter has in Hugging Face's GPT-2.
std::string tensor_name(const OptimizerState& state, std::string_view version) {
  return str(state.name, ".", version == version_without_prefix ? "" : "transformer.", state.parameter);
}

std::string_view version_of(const SafetensorsFile& file) { return file.header().metadata.at("version"); }

[[noreturn]] void refuse(const SafetensorsFile& file, const std::string& message) {
  throw Error::input(str(file.path().string(), ": ", message, "; choose another checkpoint"));
}

std::string metadata_of(const SafetensorsFile& file, const char* key) {
  const auto& metadata = file.header().metadata;
  const auto found = metadata.find(key);
  if (found == metadata.end()) refuse(file, str("its metadata has no ", quote(key)));
  return found->second;
}

// Returns the optimizer that wrote the file.
OptimizerName writer_of(const SafetensorsFile& file) {
  const std::string format = metadata_of(file, "format");
  std::vector<std::string> marks;
  for (std::size_t i = 0; i < words_of<OptimizerName>.size(); ++i) {
    const auto name = static_cast<OptimizerName>(i);
    if (format == format_mark(name)) return name;
    marks.push_back(format_mark(name));
  }
  refuse(file, str("it is not a file of an optimizer's states (", join(marks, " or "), ")"));
}

std::int64_t read_steps(const SafetensorsFile& file) {
  writer_of(file);
  const std::string version = metadata_of(file, "version");
  if (version != format_version && version != version_without_prefix) {
    refuse(file, str("it is of version ", quote(version), ", and this program knows versions ", version_without_prefix,
                     " and ", format_version));
  }
  const std::string text = metadata_of(file, "steps");
  const auto steps = whole_number(text);
  if (!steps) refuse(file, str("its metadata gives the number of steps as ", quote(text)));
  return *steps;
}

// Refuses a file that does not hold exactly what its writer keeps.
void check_tensors(const SafetensorsFile& file, const ParameterLayout& layout) {
  std::vector<std::string> missing, unknown;
  std::set<std::string> known;
  OptimizerConfig writer;
  writer.name = writer_of(file);
  for (const OptimizerState& state : optimizer_states(writer, layout)) {
    const std::string name = tensor_name(state, version_of(file));
    known.insert(name);
    const TensorEntry* entry = file.find(name);
    if (entry == nullptr)
      missing.push_back(name);
    else
      check_tensor(file, *entry, state.shape);
  }
  if (!missing.empty()) refuse_missing(file.path(), missing);
  for (const TensorEntry& entry : file.header().tensors) {
    if (!known.contains(entry.name)) unknown.push_back(entry.name);
    if (entry.dtype != "F32") refuse(file, str("tensor ", quote(entry.name), " is ", entry.dtype, " instead of F32"));
  }
  if (!unknown.empty()) refuse_unknown(file.path(), unknown);
}

}  // namespace

void write_optimizer(const fs::path& path, const OptimizerStates& optimizer) {
  std::vector<OptimizerState> on_host = optimizer.all;  // until they are written
  at::Tensor gathered;
  std::vector<TensorToWrite> tensors;
  for (OptimizerState& state : on_host) {
    const std::string name = tensor_name(state, format_version);
    if (!optimizer.gather) {
      state.value = state.value.cpu();
      tensors.push_back(tensor_to_write(name, state.value));
      continue;
    }
    const auto fetch = [&optimizer, &gathered, &state, name] {
      gathered = optimizer.gather(state).cpu();
      return tensor_to_write(name, gathered).bytes;
    };
    const auto elements = static_cast<std::size_t>(c10::multiply_integers(state.shape));
    tensors.push_back({.name = name,
                       .dtype = "F32",
                       .shape = {state.shape.begin(), state.shape.end()},
                       .bytes = {static_cast<const std::byte*>(nullptr), elements * sizeof(float)},
                       .fetch = fetch});
  }
  write_safetensors(path, std::move(tensors),
                    {{"format", format_mark(optimizer.name)},
                     {"version", std::string(format_version)},
                     {"steps", str(optimizer.steps)}});
}

void hand_over_optimizer(const OptimizerStates& optimizer) {
  if (!optimizer.gather) return;
  std::vector<OptimizerState> in_file = optimizer.all;  // as write_safetensors() sorts them
  std::sort(in_file.begin(), in_file.end(), [](const OptimizerState& a, const OptimizerState& b) {
    return tensor_name(a, format_version) < tensor_name(b, format_version);
  });
  for (const OptimizerState& state : in_file) optimizer.gather(state);
}

std::int64_t optimizer_steps(const fs::path& folder) {
  return read_steps(SafetensorsFile(folder / "optimizer.safetensors"));
}

void load_optimizer(const fs::path& folder, const ParameterArena& arena, Optimizer& optimizer) {
  const SafetensorsFile file(folder / "optimizer.safetensors");
  const std::int64_t steps = read_steps(file);
  check_tensors(file, arena);
  std::size_t begun = 0, taken = 0;
  for (const OptimizerState& state : optimizer.states()) {
    const TensorEntry* const entry = file.find(tensor_name(state, version_of(file)));
    if (entry != nullptr && !state.kept.empty()) {
      const at::Tensor whole = read_tensor(file, *entry).flatten();
      for (const auto& [elements, values] : state.kept) values.copy_(whole.slice(0, elements.begin, elements.end));
    }
    ++(entry == nullptr ? begun : taken);
  }
  if (const OptimizerName writer = writer_of(file); writer != optimizer.name()) {
    log_info(str(file.path().string(), " was saved by ", word_of(writer), ", and the run goes on with ",
                 word_of(optimizer.name()), ": ", taken, " tensors are kept, ", begun, " begin at zero, and ",
                 file.header().tensors.size() - taken, " are ignored"));
  }
  optimizer.set_steps(steps);
}

}  // namespace inkling
