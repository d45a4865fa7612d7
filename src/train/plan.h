// What a run is going to do, settled before it begins: what it goes on from, its data, and what `auto` became.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "config/config.h"
#include "data/dataset.h"
#include "model/model.h"
#include "train/resources.h"
#include "train/run_folder.h"
#include "train/start.h"
#include "train/trainer.h"

namespace inkling {

struct RunPlan {
  Config asked;   // as the person wrote it, and complete
  Config config;  // with training.micro_batch_size a number
  std::optional<Resume> resume;
  Runtime runtime;
  std::optional<InitialModel> initial;  // of a new run that starts from weights
  Dataset dataset;  // ready token files come with the tokenizer of what the run starts from, if that has one
  GptShape shape;
  std::optional<Token> separator = {};  // in front of documents that are kept apart: none for data.documents: join
  DiskNeed disk;
};

// Prepares the data and plans the run in folder `run`. Returns none, after saying so, if all its steps are done. Errors
// of find_resume(), resolve_runtime(), prepare_dataset(), check_recompute() and split_batch();
// Error input for data.documents other than join where the data has no known separator, or is one document.
std::optional<RunPlan> plan_run(const Config& asked, const TrainOptions& options, const std::filesystem::path& run,
                                const Ranks& ranks = {});

// What the memory of each rank's GPU has settled, training.micro_batch_size and runtime.split, becomes what the one
// with the least has come to. All call it, and the next; plan: null where the run is finished.
void agree_on_split(const Ranks& ranks, RunPlan* plan);

// Throws Error input in all ranks where one of them was to do something else than rank 0, naming it and what differs.
void require_same_plan(const Ranks& ranks, const Config& asked, const RunPlan* plan);

// Makes training.micro_batch_size the largest divisor of the batch that is at most half of what it is. Returns false,
// and changes nothing, where there is none or the person wrote the number.
bool lower_micro_batch_size(RunPlan& plan);

// Returns what to tell of a run that has come down from micro-batches of so many windows because they did not fit.
std::string describe_lowered(const RunPlan& plan, std::int64_t before);

// Returns the trainer of a plan. On a GPU all that takes memory has been made once by then, so that a lack shows before
// the run's folder changes; where the size of a micro-batch is ours to choose, it is lowered until there is none.
std::unique_ptr<Trainer> make_trainer(RunPlan& plan);

// Tells the person what the run will do, with which data, model, machine and memory.
void log_plan(const RunPlan& plan, const std::filesystem::path& run);

}  // namespace inkling
