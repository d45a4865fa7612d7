// How many bytes training holds is said before it starts, and again, counted, when it is done.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <string>

#include "tests/train/training_folder.h"

namespace inkling {
namespace {

// The size behind `words`, in MiB.
double mebibytes_after(const std::string& text, const std::string& words) {
  std::smatch match;
  if (!std::regex_search(text, match, std::regex(words + "([0-9.]+) (KiB|MiB|GiB)"))) {
    ADD_FAILURE() << "no size behind \"" << words << "\" in:\n" << text;
    return std::nan("");
  }
  return std::stod(match[1]) * (match[2] == "GiB" ? 1024.0 : match[2] == "MiB" ? 1.0 : 1.0 / 1024.0);
}

class Memory : public TrainingFolder, public testing::WithParamInterface<const char*> {};

TEST_P(Memory, IsWithin15PercentOfWhatWasSaidBefore) {
  const Outcome outcome =
      train({"--set training.max_steps=3 --set schedule.decay_steps=0 --set schedule.warmup_steps=1",
             "--set model.n_embd=128 --set model.n_head=4 --set training.batch_size=24", GetParam()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const double said = mebibytes_after(outcome.err, "training holds about ");
  const double held = mebibytes_after(outcome.err, "of which training held ");
  EXPECT_LT(std::abs(held / said - 1.0), 0.15) << "said " << said << " MiB, held " << held << " MiB";
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Memory,
    testing::Values("--set model.dropout=0 --set training.micro_batch_size=24 --set model.block_size=128",
                    "--set model.dropout=0 --set training.micro_batch_size=12 --set model.n_layer=6",
                    "--set model.dropout=0.2 --set training.micro_batch_size=24 --set model.block_size=128",
                    "--set model.dropout=0 --set model.n_embd=512 --set model.n_layer=4",
                    "--set data.source=" INKLING_SOURCE_DIR
                    "/data/fables.grammar --set data.stories=500 --set data.tokenizer.kind=char --set model.dropout=0 "
                    "--set model.block_size=256 --set training.micro_batch_size=24 --set evaluation.batches=4",
                    "--set model.dropout=0 --set training.micro_batch_size=24 --set runtime.kernels=aten",
                    "--set model.dropout=0.2 --set training.micro_batch_size=24 --set runtime.kernels=aten"));

}  // namespace
}  // namespace inkling
