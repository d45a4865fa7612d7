// A data set that was reported as prepared survives a power cut.
#include "tests/durability.h"

#include <gtest/gtest.h>

#include "data/dataset.h"

namespace inkling {
namespace {

TEST(Durability, ADataSetIsOnTheDiskWithEveryFolderOnItsWay) {
  const TemporaryFolder folder;
  DataConfig config;
  config.source = {folder.write("a.txt", "Some text that is long enough.\nAnd a second line of it.\n")};
  for (const char* text : {"Some text that is long enough.\nA second line.\n", "Another text in the same place.\n"}) {
    folder.write("a.txt", text);
    config.dir = (folder / "data/prepared").string();
    const RecordedCalls calls;
    prepare_dataset(config, {});
    const Durability found = calls.durability();
    expect_durable(found, folder / "data/prepared");
    EXPECT_FALSE(found.unsynced.contains(folder.path())) << "the name of data is not synced";
  }
}

}  // namespace
}  // namespace inkling
