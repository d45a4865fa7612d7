#include "train/initial_model.h"

#include "base/error.h"
#include "base/paths.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_weights.h"
#include "text/build_tokenizer.h"

namespace inkling {
namespace {

std::string count_of(std::int64_t count, std::string_view one) {
  return str(format_count(static_cast<std::uint64_t>(count)), " ", one, count == 1 ? "" : "s");
}

}  // namespace

std::optional<InitialModel> find_initial_model(const ModelConfig& config) {
  if (!config.init_from) return std::nullopt;
  require_model(*config.init_from);
  const fs::path folder = find_checkpoint(*config.init_from, "");
  check_checkpoint(folder);
  return InitialModel{.folder = folder, .shape = read_shape(folder)};
}

Config inherit_model(Config config, const InitialModel& model) {
  inherit_shape(config, model.shape, model.folder.string());
  inherit_tokenizer(config, model.folder);
  return config;
}

Config complete_settings(const Config& asked) {
  const auto model = find_initial_model(asked.model);
  return model ? inherit_model(asked, *model) : asked;
}

Config inherit_settings(Config config, const Config& before) {
  complete_shape(config, before.model);
  const TokenizerConfig& tokenizer = before.data.tokenizer;
  if (!config.written.find("data.tokenizer.kind")) config.data.tokenizer.kind = tokenizer.kind;
  if (!config.written.find("data.tokenizer.from")) config.data.tokenizer.from = tokenizer.from;
  return config;
}

void require_same_tokens(const Tokenizer& tokenizer, const InitialModel& model) {
  if (!holds_tokenizer(model.folder)) return;
  const auto problem = misunderstanding(tokenizer, *load_tokenizer(model.folder));
  if (!problem) return;
  throw Error::input(str("data.tokenizer: ", *problem, " to the weights in ", model.folder.string(),
                         " (model.init_from); leave data.tokenizer out, so that theirs is taken"));
}

std::vector<std::string> describe_initial_model(const InitialModel& model, const GptShape& shape) {
  const GptShape& stored = model.shape;
  const std::size_t tensors = gpt_parameters(stored).size();
  std::vector<std::string> lines = {
      str("starts from ", model.folder.string(), ": all ", tensors, " tensors of a model of ",
          format_count(static_cast<std::uint64_t>(ParameterLayout(gpt_parameters(stored)).parameter_count())),
          " parameters")};
  const std::int64_t cut = stored.block_size - shape.block_size;
  if (shape.position == Position::learned && cut > 0) {
    lines.push_back(str("cut: ", count_of(cut, "learned position"), ", from ", shape.block_size, " on"));
  } else if (shape.position == Position::learned && cut < 0) {
    lines.push_back(
        str("added: ", count_of(-cut, "learned position"), ", from ", stored.block_size, " on, with new values"));
  } else if (cut < 0) {
    lines.push_back(str("model.block_size is ", shape.block_size, ", and the weights were trained on ",
                        stored.block_size, " tokens at once"));
  }
  if (const std::int64_t added = shape.vocab_size - stored.vocab_size; added > 0) {
    lines.push_back(str("added: ", count_of(added, "token"), ", from ", stored.vocab_size,
                        " on, each as the mean of those before"));
  }
  return lines;
}

}  // namespace inkling
