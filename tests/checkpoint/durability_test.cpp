// A checkpoint that was reported as saved survives a power cut.
#include "tests/durability.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "checkpoint/checkpoint.h"
#include "tests/checkpoint/tiny_run.h"

namespace inkling {
namespace {

TEST(Durability, ACheckpointIsOnTheDiskWithEveryFolderOnItsWay) {
  const TemporaryFolder folder;
  for (const std::int64_t step : {1, 2, 2}) {  // the first of a run, another one, and one that is saved again
    const RecordedCalls calls;
    TinyRun().save_step(folder / "runs/run", step);
    const Durability found = calls.durability();
    expect_durable(found, checkpoint_folder(folder / "runs/run", step));
    for (const fs::path& above : {folder / "runs/run", folder / "runs", folder.path()}) {
      EXPECT_FALSE(found.unsynced.contains(above)) << above;
    }
  }
}

}  // namespace
}  // namespace inkling
