// Which of a run's files are on the disk when.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/system_calls.h"
#include "tests/train/training_folder.h"
#include "train/train.h"

namespace inkling {
namespace {

namespace fs = std::filesystem;
using LogOrder = TrainingFolder;

TEST_F(LogOrder, LinesAreOnTheDiskBeforeTheCheckpointThatTheyBelongTo) {
  const fs::path run = folder / "run";
  const fs::path log = run / "log.jsonl";
  const std::vector<std::string> settings = {"data.source=" + (folder / "text.txt").string(),
                                             "data.dir=" + (folder / "data").string(), "training.max_steps=21"};
  const Config config = load_config(folder / "run.yaml", settings);
  std::uintmax_t synced = 0;  // bytes of the log
  bool name_is_synced = false;
  int saved = 0;
  const SystemCalls watch([&](std::string_view call, const std::string& path) {
    if (call == "fsync" && path == log) synced = fs::file_size(log);
    if (call == "fsync" && path == run) name_is_synced = fs::exists(log);
    if (call.starts_with("rename") && path.starts_with((run / "checkpoints/step-").string())) {
      ++saved;
      EXPECT_EQ(synced, fs::file_size(log)) << path;
      EXPECT_TRUE(name_is_synced) << path;
    }
    return 0;
  });
  testing::internal::CaptureStderr();
  TrainOptions options;
  options.config_path = folder / "run.yaml";
  options.out = run;
  EXPECT_EQ(inkling::train(config, options), 0);
  testing::internal::GetCapturedStderr();
  EXPECT_GE(saved, 4);
}

}  // namespace
}  // namespace inkling
