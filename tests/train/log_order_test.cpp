// Which of a run's files are on the disk when.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/paths.h"
#include "tests/system_calls.h"
#include "tests/train/training_folder.h"
#include "train/board.h"
#include "train/train.h"

namespace inkling {
namespace {

namespace fs = std::filesystem;
using LogOrder = TrainingFolder;

TEST_F(LogOrder, LinesAreOnTheDiskBeforeTheCheckpointThatTheyBelongTo) {
  const fs::path run = folder / "run";
  const fs::path log = run / "log.jsonl";
  const std::vector<std::string> settings = {"data.source=" + (folder / "text.txt").string(),
                                             "data.dir=" + (folder / "data").string(), "training.max_steps=21",
                                             "logging.tensorboard=true"};
  const Config config = load_config(folder / "run.yaml", settings);
  std::map<std::string, std::uintmax_t> synced;  // bytes of the log and the events
  std::set<std::string> synced_names;
  int saved = 0;
  const SystemCalls watch([&](std::string_view call, const std::string& path) {
    const bool grows = path == log || is_event_file(path);
    if (call == "fsync" && grows) synced[path] = fs::file_size(path);
    if (call == "fsync" && path == run) {
      for (const std::string& name : names_in(run)) synced_names.insert(run / name);
    }
    if (call.starts_with("rename") && path.starts_with((run / "checkpoints/step-").string())) {
      ++saved;
      EXPECT_EQ(synced.size(), 2u) << path;
      for (const auto& [file, size] : synced) {
        EXPECT_EQ(size, fs::file_size(file)) << path;
        EXPECT_TRUE(synced_names.contains(file)) << path;
      }
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
