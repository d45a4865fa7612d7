#include "train/plan.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "backend/choose.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/thread_choice.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_weights.h"
#include "config/config.h"
#include "evaluate/score.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "runtime/cpu_memory.h"
#include "runtime/device.h"
#include "text/build_tokenizer.h"
#include "train/evaluation.h"
#include "train/leaves.h"
#include "train/report.h"
#include "train/resources.h"

namespace inkling {
namespace {

// A resumed run whose sums are grouped by its number of threads keeps it, also where it would begin with fewer now.
void warn_of_threads(std::int64_t before) {
  const auto [threads, limit, ignored] = choose_threads(ThreadUse::arithmetic, find_thread_limits());
  if (threads >= before) return;
  log_warning(str("runtime.threads: auto stays ", before, ", as when the run began, and would be ", threads, " here",
                  limit.empty() ? "" : str(" (", limit, ")"), "; runtime.threads: ", threads,
                  " would go on with other bits, and faster"));
}

// `auto` settings keep the meaning they had when the run began, where this machine allows it.
Runtime resume_runtime(const RuntimeConfig& asked, const Resolved& before) {
  RuntimeConfig wanted = asked;
  if (!wanted.device) wanted.device = before.device;
  if (!wanted.dtype) wanted.dtype = before.dtype;
  // Kernels that were chosen for another device or dtype may not be right for this one.
  const bool is_alike = wanted.device->cuda == before.device.cuda && wanted.dtype == before.dtype;
  const bool follows_threads = wanted.split.value_or(before.split) == WorkSplit::products;
  if (!wanted.threads && follows_threads) {
    wanted.threads = before.threads;
    if (!before.device.cuda) warn_of_threads(before.threads);
  }
  try {
    if (!wanted.kernels && is_alike) {
      wanted.kernels = kernels_as_before(before.kernels, wanted);
      if (wanted.kernels != before.kernels) {
        log_warning(str("not bit-identical to an uninterrupted run because runtime.kernels: ", word_of(before.kernels),
                        ", with which it began, is not available here"));
      }
    }
    return resolve_runtime(wanted);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::environment) throw;
    const Runtime runtime = resolve_runtime(asked);
    log_warning(str("not bit-identical to an uninterrupted run because it began on ", device_text(before.device),
                    ", which is not available here"));
    return runtime;
  }
}

// Settles how a batch is computed: training.micro_batch_size becomes a number, and runtime.split one of its words. What
// they came to when the run began stays.
void settle_batch(RunPlan& plan) {
  const Config& asked = plan.asked;
  Config kept = asked;
  if (plan.resume) {
    const Resolved& before = plan.resume->state.resolved;
    std::optional<std::int64_t>& size = kept.training.micro_batch_size;
    const bool divides = before.micro_batch_size > 0 && asked.training.batch_size % before.micro_batch_size == 0;
    if (!size && divides) size = before.micro_batch_size;
    const bool is_alike = before.device.cuda != computes_with_threads(plan.runtime.device);
    if (!kept.runtime.split && is_alike) kept.runtime.split = before.split;
  }
  const std::uint64_t limit = memory_limit(asked.runtime, plan.runtime.device);
  BatchSplit settled;
  try {
    settled = split_batch(kept, plan.shape, plan.runtime, limit);
  } catch (const Error& error) {
    const bool is_kept =
        kept.training.micro_batch_size != asked.training.micro_batch_size || kept.runtime.split != asked.runtime.split;
    if (!is_kept || error.kind() != ErrorKind::environment) throw;
    settled = split_batch(asked, plan.shape, plan.runtime, limit);
    const Resolved& before = plan.resume->state.resolved;
    log_warning(str("not bit-identical to an uninterrupted run because what it began with no longer fits into memory (",
                    "training.micro_batch_size: ", before.micro_batch_size, ", runtime.split: ", word_of(before.split),
                    ")"));
  }
  plan.config = asked;
  plan.config.training.micro_batch_size = settled.micro_batch_size;
  plan.runtime.split = settled.split;
  if (!plan.resume || !plan.resume->state.had_other_dropout) return;
  if (asked.model.dropout > 0 && settled.micro_batch_size < asked.training.batch_size) {
    log_warning(
        "not bit-identical to an uninterrupted run because the version that began it drew other random numbers "
        "for dropout in each micro-batch but the first");
  }
}

// Returns "1, 2, 4 or 8": the numbers of ranks that add up so many leaves as one does.
std::string list_orderly_ranks(std::int64_t leaves) {
  std::vector<std::string> numbers;
  for (std::int64_t ranks = 1; ranks < leaves && numbers.size() < 8; ++ranks) {
    const int count = static_cast<int>(ranks);
    if (keeps_order(leaves, count) && ranks_with_leaves(leaves, count) == count) numbers.push_back(str(ranks));
  }
  return numbers.empty() ? str(leaves) : str(join(numbers, ", "), " or ", leaves);
}

// Returns "a batch is 2 times 6 windows, shared out over the threads: …", or how else it is computed. What it says of
// bits is of this run, which keeps its micro-batches; one that begins with other threads may have others.
std::string describe_split(const RunPlan& plan) {
  const std::int64_t rows = plan.config.training.micro_batch_size.value(), batch = plan.config.training.batch_size;
  const Ranks& ranks = plan.runtime.ranks;
  const std::string sizes =
      rows == batch ? str("a batch is ", batch) : str("a batch is ", batch / rows, " times ", rows);
  std::string windows = str(sizes, rows == 1 ? " window" : " windows");
  const bool has_threads = computes_with_threads(plan.runtime.device), is_alone = ranks.is_alone();
  if (is_alone && !has_threads) return windows;
  if (!is_alone) windows += str(", shared out over ", ranks.count(), " ranks");
  if (plan.runtime.split == WorkSplit::products) {
    return str(windows, has_threads ? "; each product is split over the threads" : "",
               ": another number of them goes on with other bits");
  }
  const std::int64_t leaves = batch / rows, workers = ranks.count() * (has_threads ? plan.runtime.threads : 1);
  const std::int64_t idle = workers - leaves;
  std::string words = str(windows, is_alone      ? ", shared out over the threads"
                                   : has_threads ? " and their threads"
                                                 : "");
  if (is_alone) {
    words += ": any number of them goes on with the same bits";
  } else if (keeps_order(leaves, ranks.count())) {
    words += str(": ", list_orderly_ranks(leaves), " ranks", has_threads ? ", with any number of threads," : "",
                 " go on with the same bits");
  } else {
    words += str(": another number of ranks goes on with other bits, because only ", list_orderly_ranks(leaves),
                 " add up so many micro-batches in one order");
  }
  if (idle <= 0) return words;
  return str(words, "; ", idle, " of ", workers, is_alone ? "" : " threads", idle == 1 ? " has" : " have",
             " nothing to do: training.", rows == 1 ? "batch_size is too small" : "micro_batch_size is too large",
             " for so many");
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
                 ". Raise training.max_steps to go on, or start over in another folder"));
    return true;
  }
  const auto reached = [&](std::int64_t patience) { return patience > 0 && state.evaluations_since_best >= patience; };
  if (!reached(resume.patience) || !reached(asked.stop_when.patience)) return false;
  if (asked.max_steps > resume.max_steps) return false;
  log_info(str("this run stopped early, after ", state.step, " steps: ", describe_standstill(state),
               ". Raise training.stop_when.patience or training.max_steps to go on, or start over in another "
               "folder"));
  return true;
}

// A run that goes on after an early stop, because there are more steps to make, has all its patience again.
void renew_patience(Resume& resume, const TrainingConfig& asked) {
  const std::int64_t patience = asked.stop_when.patience;
  if (patience > 0 && resume.state.evaluations_since_best >= patience) resume.state.evaluations_since_best = 0;
}

PrepareOptions prepare_options(const Config& asked, const TrainOptions& options) {
  PrepareOptions prepare;
  prepare.block_size = asked.model.block_size;
  prepare.dry_run = options.dry_run;
  return prepare;
}

// Returns how many tokens a model for the data has.
std::uint64_t count_tokens(const Dataset& dataset) {
  return std::max(dataset.vocab_size, dataset.tokenizer ? dataset.tokenizer->vocab_size() : 0);
}

RunPlan plan_new_run(const Config& asked, const TrainOptions& options) {
  RunPlan plan;
  plan.asked = asked;
  plan.runtime = resolve_runtime(asked.runtime);
  plan.dataset = prepare_dataset(asked.data, prepare_options(asked, options));
  plan.shape = shape_from(asked.model, count_tokens(plan.dataset));
  return plan;
}

// The model gives its shape and its tokenizer, unless the person names another, whose tokens must mean the same to it.
RunPlan plan_from_weights(const Config& asked, const TrainOptions& options) {
  RunPlan plan;
  plan.runtime = resolve_runtime(asked.runtime);
  InitialModel& model = plan.initial.emplace(find_initial_model(asked.model).value());
  plan.asked = inherit_model(asked, model);
  PrepareOptions prepare = prepare_options(plan.asked, options);
  const bool takes_its_tokenizer = plan.asked.data.tokenizer.from == model.folder.string();
  if (takes_its_tokenizer) prepare.named = model.tokenizer.get();
  plan.dataset = prepare_dataset(plan.asked.data, prepare);
  if (!plan.dataset.tokenizer) {
    plan.dataset.tokenizer = std::move(model.tokenizer);
  } else if (!takes_its_tokenizer) {
    require_same_tokens(*plan.dataset.tokenizer, model);
  }
  const auto of_model = static_cast<std::uint64_t>(model.shape.vocab_size);
  plan.shape = shape_from(plan.asked.model, std::max(count_tokens(plan.dataset), of_model));
  return plan;
}

// The data must be those that the run began with, and the machine's settings stay as far as this machine allows it.
RunPlan plan_resumed_run(Resume resume, const Config& asked, const TrainOptions& options, const fs::path& run) {
  RunPlan plan;
  plan.asked = asked;
  plan.runtime = resume_runtime(asked.runtime, resume.state.resolved);
  DataConfig data = asked.data;
  replace_missing_tokenizer(data.tokenizer, resume.checkpoint);
  PrepareOptions prepare = prepare_options(asked, options);
  prepare.check_hash = [&](const std::string& hash) {
    if (resume.state.data_hash == hash) return;
    throw CannotGoOn(str("the text of data.source is not what the run in ", run.string(),
                         " was trained on; bring the old text back"));
  };
  plan.dataset = prepare_dataset(data, prepare);
  if (!plan.dataset.tokenizer && holds_tokenizer(resume.checkpoint)) {
    plan.dataset.tokenizer = load_tokenizer(resume.checkpoint);
  }
  plan.shape = shape_from(asked.model, static_cast<std::uint64_t>(read_shape(resume.checkpoint).vocab_size));
  plan.resume = std::move(resume);
  return plan;
}

// Decides how documents are kept apart, and throws where the data has nothing to draw samples or documents from.
void check_texts(RunPlan& plan, const TrainOptions& options) {
  const Dataset& dataset = plan.dataset;
  if (options.dry_run && dataset.train.tokens == 0) return;  // its tokenizer is trained first
  check_sampling(plan.asked.sampling, dataset.tokenizer.get());
  plan.separator = document_separator(plan.asked.data.documents, dataset.tokenizer.get());
  if (!plan.separator || dataset.train.shards.empty()) return;
  require_documents({dataset.train.shards, dataset.vocab_size, dataset.train.layout}, *plan.separator,
                    plan.asked.data.documents);
}

DiskNeed find_disk_need(const RunPlan& plan, const fs::path& run) {
  const std::int64_t done = plan.resume ? plan.resume->state.step : 0;
  const std::int64_t steps = std::max<std::int64_t>(plan.config.training.max_steps - done, 0);  // reports may be left
  return {.run_bytes = run_folder_bytes(plan.config, plan.shape, steps, bytes_below(run / "checkpoints")),
          .token_bytes = plan.dataset.bytes_to_write,
          .run_disk = disk_space(run),
          .data_disk = disk_space(plan.dataset.folder)};
}

}  // namespace

std::optional<RunPlan> plan_run(const Config& written, const TrainOptions& options, const fs::path& run,
                                const Ranks& ranks) {
  Config asked = written;
  std::optional<Resume> resume = find_resume(run, asked, options.accept_changes);
  if (resume && is_finished(*resume, asked.training)) return std::nullopt;
  if (resume) renew_patience(*resume, asked.training);
  RunPlan plan = resume                  ? plan_resumed_run(*std::move(resume), asked, options, run)
                 : asked.model.init_from ? plan_from_weights(asked, options)
                                         : plan_new_run(asked, options);
  plan.runtime.ranks = ranks;
  check_texts(plan, options);
  reuse_cpu_memory();
  // Refuses where the GPU's library is missing.
  plan.runtime = runtime_for(plan.shape, plan.runtime, plan.asked.data.keeps_documents_apart());
  check_recompute({.dropout = plan.asked.model.dropout, .recompute = plan.asked.training.recompute}, plan.runtime);
  settle_batch(plan);
  plan.disk = find_disk_need(plan, run);
  return plan;
}

bool lower_micro_batch_size(RunPlan& plan) {
  std::int64_t& size = plan.config.training.micro_batch_size.value();
  const std::int64_t lower = half_micro_batch_size(plan.config.training.batch_size, size);
  if (plan.asked.training.micro_batch_size || lower == 0) return false;
  size = lower;
  return true;
}

std::string describe_lowered(const RunPlan& plan, std::int64_t before) {
  const std::int64_t now = plan.config.training.micro_batch_size.value();
  if (!plan.resume) {
    return str("training.micro_batch_size: auto is ", now, ", because the GPU's memory is too small for ", before);
  }
  return str(
      "not bit-identical to an uninterrupted run because the GPU's memory is too small for "
      "training.micro_batch_size: ",
      before, ", with which it was to go on; auto is ", now);
}

// Returns a trainer that has taken the memory of a step. Throws where it is lacking.
std::unique_ptr<Trainer> rehearsed_trainer(const RunPlan& plan) {
  const at::Device device = plan.runtime.device;
  auto trainer = std::make_unique<Trainer>(plan.config, plan.shape, plan.runtime, plan.separator);
  trainer->rehearse();
  const std::uint64_t held = held_bytes(device);
  const std::optional<double>& allowed = plan.config.runtime.memory_limit_gib;
  if (allowed && held > memory_limit(plan.config.runtime, device)) {
    throw OutOfMemory(ErrorKind::environment,
                      str("a step takes ", format_bytes(held), ", and ", format_shortest(*allowed),
                          " GiB are allowed (runtime.memory_limit_gib)"));
  }
  return trainer;
}

// Where one rank lacks memory, all of them take fewer windows at a time.
std::unique_ptr<Trainer> make_trainer(RunPlan& plan) {
  const at::Device device = plan.runtime.device;
  meet_on_gpus(plan.runtime);
  agree_on_batches(plan.runtime);
  if (!reports_lack_of_memory(device)) {
    return std::make_unique<Trainer>(plan.config, plan.shape, plan.runtime, plan.separator);
  }
  const std::int64_t planned = plan.config.training.micro_batch_size.value();
  while (true) {
    std::unique_ptr<Trainer> trainer;
    std::exception_ptr lack;
    try {
      trainer = rehearsed_trainer(plan);
    } catch (const std::exception& error) {
      if (!is_lack_of_memory(error)) throw;
      lack = std::current_exception();
    }
    const std::vector<std::string> lacks = plan.runtime.ranks.gather(lack ? "lacks memory" : "");
    const auto who = std::find_if(lacks.begin(), lacks.end(), [](const std::string& said) { return !said.empty(); });
    if (who == lacks.end()) {
      if (plan.config.training.micro_batch_size != planned) log_warning(describe_lowered(plan, planned));
      return trainer;
    }
    if (!lower_micro_batch_size(plan)) {
      if (lack) std::rethrow_exception(lack);
      const int rank = static_cast<int>(who - lacks.begin());
      throw Error::environment(str("the GPU's memory is too small for ", plan.runtime.ranks.name_of(rank)));
    }
    lack = nullptr;
    trainer.reset();
    give_back_memory(device);  // what was tried is gone here
  }
}

void log_plan(const RunPlan& plan, const std::filesystem::path& run) {
  const Dataset& dataset = plan.dataset;
  const GptShape& shape = plan.shape;
  if (dataset.train.tokens == 0) {
    log_info(str("data: ", dataset.folder.string(), ", vocabulary ", shape.vocab_size,
                 " as asked for; the number of tokens is known once the tokenizer is trained"));
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
  log_info(describe_split(plan));
  log_info(str("writes to ", run.string(), ": ", describe_room(plan.disk)));
}

}  // namespace inkling
