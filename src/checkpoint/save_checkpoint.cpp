// save_checkpoint of checkpoint.h.
#include "base/error.h"
#include "base/files.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/generation_config.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_weights.h"
#include "checkpoint/modeling_inkling.h"
#include "checkpoint/optimizer_file.h"
#include "checkpoint/state_file.h"

namespace inkling {
namespace {

// Refuses to write what could not be loaded.
void check_run(const ParameterArena& arena, const Optimizer& optimizer, const TrainingState& state) {
  if (const auto name = tensor_not_finite(arena)) {
    throw Error(ErrorKind::diverged,
                str("training has diverged: after step ", state.step, " tensor ", quote(*name),
                    " of the weights is not finite, so nothing was saved; earlier checkpoints are untouched. ",
                    diverged_advice));
  }
  if (optimizer.steps() != state.step - state.skipped_steps) {
    throw Error::internal(str("a run of ", state.step, " steps, ", state.skipped_steps,
                              " of them without an update, has made ", optimizer.steps(), " updates"));
  }
}

}  // namespace

void save_checkpoint(const fs::path& folder, const Config& config, const GptShape& shape, const ParameterArena& arena,
                     const Optimizer& optimizer, const TrainingState& state, const Tokenizer* tokenizer,
                     const at::Tensor& average) {
  check_run(arena, optimizer, state);
  create_folders(folder.parent_path());
  OutputFolder output(folder);
  const fs::path& growing = output.temporary();
  const TextEnds ends = tokenizer == nullptr ? TextEnds{} : TextEnds{tokenizer->first_token(), tokenizer->separator()};
  const Family family = family_of(shape);
  write_file(growing / "config.json", print_model_config({shape, family}, config.model.dropout, ends));
  if (family == Family::inkling) write_file(growing / modeling_inkling_name, modeling_inkling);
  write_file(growing / "generation_config.json", print_generation_config(ends));
  write_file(growing / "config.yaml", print_config(config));
  if (tokenizer != nullptr) tokenizer->save(growing);
  write_model_weights(growing / "model.safetensors", shape, arena, arena.values());
  if (average.defined()) write_model_weights(growing / "ema.safetensors", shape, arena, average);
  write_optimizer(growing / "optimizer.safetensors", arena, optimizer);
  write_state(growing, state);
  output.replace();
}

}  // namespace inkling
