#include "checkpoint/load_model.h"
#include "checkpoint/model_weights.h"

#include "backend/choose.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"

namespace inkling {

namespace fs = std::filesystem;

LoadedModel load_model(const fs::path& folder, const Runtime& runtime, SavedWeights which) {
  check_checkpoint(folder);
  const GptShape shape = read_shape(folder);
  const Runtime fitting = runtime_for(shape, runtime);
  LoadedModel loaded{.folder = folder, .runtime = fitting, .arena = {}, .model = {}, .tokenizer = {}};
  if (holds_tokenizer(folder)) loaded.tokenizer = load_tokenizer(folder);
  if (loaded.tokenizer && loaded.tokenizer->vocab_size() > static_cast<std::uint64_t>(shape.vocab_size)) {
    throw Error::input(str(folder.string(), ": its tokenizer has ", format_count(loaded.tokenizer->vocab_size()),
                           " tokens and its model knows ", shape.vocab_size, " only: they do not belong together"));
  }
  loaded.arena = make_arena(shape, fitting, Use::inference);
  load_weights(folder, shape, *loaded.arena, which);
  loaded.arena->release_master(choose_backend(fitting).activation_dtype(fitting.dtype));
  loaded.model = make_model(shape, *loaded.arena, fitting);
  return loaded;
}

const Tokenizer& require_tokenizer(const LoadedModel& model) {
  if (model.tokenizer) return *model.tokenizer;
  throw Error::input(
      str(model.folder.string(),
          " holds no tokenizer (inkling_tokenizer.json), so text cannot be turned into "
          "its tokens: the model comes from elsewhere or was trained on ready token files. If you have "
          "the tokenizer of its data as inkling saved it, copy it into this folder; of nanoGPT's meta.pkl "
          "scripts/from-nanogpt META.pkl ",
          model.folder.string(), " makes one there"));
}

}  // namespace inkling
