// save_checkpoint of checkpoint.h.
#include <algorithm>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_weights.h"
#include "checkpoint/optimizer_file.h"
#include "checkpoint/state_file.h"

namespace inkling {
namespace {

std::vector<std::string> file_names(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

void save_checkpoint(const fs::path& folder, const Config& config, const GptShape& shape, const ParameterArena& arena,
                     const AdamW& optimizer, const TrainingState& state, const Tokenizer* tokenizer) {
  create_folders(folder.parent_path());
  OutputFolder output(folder);
  const fs::path& growing = output.temporary();
  const std::optional<Token> separator = tokenizer == nullptr ? std::nullopt : tokenizer->separator();
  write_file(growing / "config.json", print_model_config(shape, config.model.dropout, separator));
  write_file(growing / "config.yaml", print_config(config));
  if (tokenizer != nullptr) tokenizer->save(growing);
  write_model_weights(growing / "model.safetensors", shape, arena);
  write_optimizer(growing / "optimizer.safetensors", arena, optimizer);
  write_state(growing, state, file_names(growing));
  output.replace();
}

}  // namespace inkling
