#include "train/plan.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/thread_choice.h"
#include "checkpoint/model_config.h"
#include "config/config.h"
#include "model/model.h"
#include "runtime/cpu_memory.h"
#include "text/build_tokenizer.h"
#include "train/fit.h"
#include "train/memory.h"
#include "train/report.h"
#include "train/room.h"
#include "train/samples.h"

namespace inkling {
namespace {

// A resumed run keeps its number of threads, which groups its sums, also where it would begin with fewer now.
void warn_of_threads(std::int64_t before) {
  const auto [threads, limit, ignored] = choose_threads(ThreadUse::arithmetic, find_thread_limits());
  if (threads >= before) return;
  log_warning(str("runtime.threads: auto stays ", before, ", as when the run began, and would be ", threads, " here",
                  limit.empty() ? "" : str(" (", limit, ")"), "; --set runtime.threads=", threads,
                  " --accept-changes goes on with other bits, and faster"));
}

// `auto` settings keep the meaning they had when the run began, where this machine allows it.
Runtime resume_runtime(const RuntimeConfig& asked, const Resolved& before) {
  RuntimeConfig wanted = asked;
  if (!wanted.device) wanted.device = before.device;
  if (!wanted.dtype) wanted.dtype = before.dtype;
  // Kernels that were chosen for another device or dtype may not be right for this one.
  const bool is_alike = wanted.device->cuda == before.device.cuda && wanted.dtype == before.dtype;
  if (!wanted.kernels && is_alike) wanted.kernels = before.kernels;
  if (!wanted.threads) {
    wanted.threads = before.threads;
    if (!before.device.cuda) warn_of_threads(before.threads);
  }
  try {
    return resolve_runtime(wanted);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::environment) throw;
    log_warning(str("not bit-identical to an uninterrupted run because it began on ", device_text(before.device),
                    ", which is not available here"));
    return resolve_runtime(asked);
  }
}

// Makes training.micro_batch_size a number: `auto` as it was resolved when the run began, or resolved now.
Config with_micro_batch_size(const Config& asked, const GptShape& shape, const Runtime& runtime,
                             const std::optional<Resume>& resume) {
  Config config = asked;
  std::optional<std::int64_t>& size = config.training.micro_batch_size;
  const std::uint64_t limit = memory_limit(asked.runtime, runtime.device);
  const std::int64_t before = resume ? resume->state.resolved.micro_batch_size : 0;
  const bool is_kept = !size && before > 0 && asked.training.batch_size % before == 0;
  if (is_kept) size = before;
  try {
    size = fitting_micro_batch_size(config, shape, runtime, limit);
  } catch (const Error&) {
    if (!is_kept) throw;
    log_warning(str("not bit-identical to an uninterrupted run because training.micro_batch_size was ", before,
                    " when it began, and no longer fits into memory"));
    size = fitting_micro_batch_size(asked, shape, runtime, limit);
  }
  if (!asked.training.micro_batch_size && *size < asked.training.batch_size) {
    log_info(str("training.micro_batch_size: ", *size, " of ", asked.training.batch_size,
                 " windows at a time fit into memory"));
  }
  return config;
}

// Prepares the data, which must be those that the run began with.
Dataset prepare(const Config& asked, const TrainOptions& options, const std::optional<Resume>& resume,
                const std::filesystem::path& run) {
  const auto check_hash = [&](const std::string& hash) {
    if (!resume || resume->state.data_hash == hash) return;
    throw Error::input(str("the text of data.source is not what the run in ", run.string(),
                           " was trained on; bring the old text back, or start over beside it with --fresh"));
  };
  DataConfig data = asked.data;
  if (resume) replace_missing_tokenizer(data.tokenizer, resume->checkpoint);
  return prepare_dataset(data,
                         {.block_size = asked.model.block_size, .dry_run = options.dry_run, .check_hash = check_hash});
}

// Returns how many tokens the model has: as many as its data, or more, if it starts from one that has more.
std::uint64_t count_tokens(const Dataset& dataset, const std::optional<InitialModel>& initial,
                           const std::optional<Resume>& resume) {
  if (resume) return static_cast<std::uint64_t>(read_model_config(resume->checkpoint).shape.vocab_size);
  const std::uint64_t of_tokenizer = dataset.tokenizer ? dataset.tokenizer->vocab_size() : 0;
  const std::uint64_t of_model = initial ? static_cast<std::uint64_t>(initial->shape.vocab_size) : 0;
  return std::max({dataset.vocab_size, of_tokenizer, of_model});
}

// Returns "full, local 128 in turn", and what of it a person may not have meant; nothing where all layers are full.
std::string describe_attention(const GptShape& shape) {
  const std::vector<std::string> texts = pattern_texts(shape.patterns);
  std::vector<std::string> beyond;
  for (const AttentionPattern& pattern : shape.patterns) {
    if (!pattern.is_full() && pattern.reach() >= shape.block_size) beyond.push_back(pattern_text(pattern));
  }
  std::string words = join(texts, ", ");
  if (texts.size() > 1) {
    const std::size_t last = static_cast<std::size_t>(shape.n_layer) % texts.size();
    words += str(" in turn", last == 0 ? "" : str(", ending with ", texts[last - 1]));
  }
  return beyond.empty() ? words : str(words, "; ", join(beyond, ", "), " reaches beyond the block");
}

// Whether the run has come to its end, which it is told then: all its steps are done, or it has stopped early and
// neither setting that ended it is raised. A run whose last evaluation is still to be made has not.
bool is_finished(const Resume& resume, const TrainingConfig& asked) {
  const TrainingState& state = resume.state;
  if (state.reports_due) return false;
  if (state.step >= asked.max_steps) {
    log_info(str("this run is finished: ", state.step, " steps are done, and training.max_steps is ", asked.max_steps,
                 ". Raise training.max_steps to go on, or give --fresh to start over"));
    return true;
  }
  const auto reached = [&](std::int64_t patience) { return patience > 0 && state.evaluations_since_best >= patience; };
  if (!reached(resume.patience) || !reached(asked.stop_when.patience)) return false;
  if (asked.max_steps > resume.max_steps) return false;
  log_info(str("this run stopped early, after ", state.step, " steps: ", describe_standstill(state),
               ". Raise training.stop_when.patience or training.max_steps to go on, or give --fresh to start over"));
  return true;
}

// A run that goes on after an early stop, because there are more steps to make, has all its patience again.
void renew_patience(Resume& resume, const TrainingConfig& asked) {
  const std::int64_t patience = asked.stop_when.patience;
  if (patience > 0 && resume.state.evaluations_since_best >= patience) resume.state.evaluations_since_best = 0;
}

// Returns "muon, 0.02 for hidden matrices; adamw, 0.004, for embeddings 0.01": the peaks of the learning rate.
std::string describe_optimizer(const OptimizerConfig& optimizer, const ParameterLayout& layout) {
  std::string words;
  if (optimizer.name == OptimizerName::muon) {
    words = str("muon, ", format_shortest(optimizer.muon.learning_rate), " for hidden matrices; ");
  }
  words += str("adamw, ", format_shortest(optimizer.learning_rate));
  const auto add = [&](ParameterGroup group, const char* name, const std::optional<double>& rate) {
    const auto [begin, end] = layout.range(group);
    if (rate && begin < end) words += str(", for ", name, " ", format_shortest(*rate));
  };
  add(ParameterGroup::embedding, "embeddings", optimizer.embedding_learning_rate);
  add(ParameterGroup::head, "the head", optimizer.head_learning_rate);
  add(ParameterGroup::vector, "vectors", optimizer.vector_learning_rate);
  return words;
}

}  // namespace

std::optional<RunPlan> plan_run(const Config& written, const TrainOptions& options, const fs::path& run) {
  Config asked = written;
  auto resume = find_resume(run, asked, options.accept_changes);
  if (resume && is_finished(*resume, asked.training)) return std::nullopt;
  if (resume) renew_patience(*resume, asked.training);
  const Runtime resolved =
      resume ? resume_runtime(asked.runtime, resume->state.resolved) : resolve_runtime(asked.runtime);
  const auto initial = resume ? std::nullopt : find_initial_model(asked.model);
  if (initial) asked = inherit_model(asked, *initial);
  Dataset dataset = prepare(asked, options, resume, run);
  const bool has_its_tokenizer = initial && asked.data.tokenizer.from == initial->folder.string();
  if (initial && dataset.tokenizer && !has_its_tokenizer) require_same_tokens(*dataset.tokenizer, *initial);
  const fs::path model = resume ? resume->checkpoint : initial ? initial->folder : fs::path();
  if (!dataset.tokenizer && !model.empty() && holds_tokenizer(model)) dataset.tokenizer = load_tokenizer(model);
  const bool waits_for_tokenizer = options.dry_run && dataset.train.tokens == 0;  // which is trained first
  if (!waits_for_tokenizer) check_sampling(asked.sampling, dataset.tokenizer.get());
  const auto separator =
      waits_for_tokenizer ? std::nullopt : document_separator(asked.data.documents, dataset.tokenizer.get());
  if (separator && !dataset.train.shards.empty()) {
    require_documents({dataset.train.shards, dataset.vocab_size, dataset.train.layout}, *separator,
                      asked.data.documents);
  }
  reuse_cpu_memory();
  const GptShape shape = shape_from(asked.model, count_tokens(dataset, initial, resume));
  const Runtime runtime = runtime_for(shape, resolved);  // refuses here where the GPU's library is missing
  check_recompute({.dropout = asked.model.dropout, .recompute = asked.training.recompute}, runtime);
  return RunPlan{.asked = asked,
                 .config = with_micro_batch_size(asked, shape, runtime, resume),
                 .resume = resume,
                 .runtime = runtime,
                 .initial = initial,
                 .dataset = std::move(dataset),
                 .shape = shape,
                 .separator = separator};
}

void log_plan(const RunPlan& plan, const std::filesystem::path& run) {
  const Dataset& dataset = plan.dataset;
  const GptShape& shape = plan.shape;
  if (dataset.train.tokens == 0) {
    log_info(str("data: ", dataset.folder.string(), ", vocabulary ", shape.vocab_size,
                 " as asked for; how many tokens shows when the tokenizer is trained"));
  } else {
    log_info(str("data: ", dataset.folder.string(), ", ", format_count(dataset.train.tokens), " training and ",
                 format_count(dataset.validation.tokens), " validation tokens, vocabulary ", shape.vocab_size));
  }
  const ParameterLayout layout(gpt_parameters(shape));
  log_info(str("model: ", shape.n_layer, " layers, ", shape.n_head, " heads, width ", shape.n_embd, ", block ",
               shape.block_size, ": ", format_count(static_cast<std::uint64_t>(layout.parameter_count())),
               " parameters"));
  if (plan.initial) {
    for (const std::string& line : describe_initial_model(*plan.initial, shape)) log_info(line);
    const TokenizerConfig& tokenizer = plan.config.data.tokenizer;
    if (tokenizer.from) log_info(str("tokenizer: ", word_of(tokenizer.kind), ", from ", *tokenizer.from));
  }
  log_info(str("optimizer: ", describe_optimizer(plan.config.optimizer, layout)));
  if (!shape.patterns.empty()) log_info(str("attention: ", describe_attention(shape)));
  if (const auto unknown = unknown_elsewhere(shape); !unknown.empty()) {
    log_info(str("because of ", join(unknown, ", "),
                 " checkpoints are an InklingForCausalLM, which transformers opens with trust_remote_code=True"));
  }
  const std::string& limit = plan.runtime.thread_limit;
  log_info(str("runs on ", plan.runtime.device_name(), limit.empty() ? "" : str(" (", limit, ")"), " in ",
               plan.runtime.dtype_name(), ", ", word_of(plan.runtime.kernels), " kernels; ",
               describe_memory(
                   training_memory(plan.config, shape, plan.runtime, plan.config.training.micro_batch_size.value()))));
  log_info(str("writes to ", run.string(), ": ", describe_room(plan, run)));
}

}  // namespace inkling
