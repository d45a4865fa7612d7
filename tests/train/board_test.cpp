// What TensorBoard is told, where scripts/check-tensorboard, which trains on a CPU, cannot see it.
#include "train/board.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/temporary_folder.h"

namespace inkling {
namespace {

// The bytes of the event file of one step.
std::string events_of(const Pace& pace) {
  const TemporaryFolder folder;
  Board board(folder.path(), -1);
  board.show_step(3, {.loss = 2.5}, pace, {});
  board.sync();
  return read_file(std::filesystem::directory_iterator(folder.path())->path());
}

TEST(Board, ShowsTheShareOfThePeakWhereItIsKnown) {
  EXPECT_TRUE(contains(events_of({.tokens_per_second = 10, .mfu = 0.25}), "throughput/mfu"));
  EXPECT_FALSE(contains(events_of({.tokens_per_second = 10}), "throughput/mfu"));
}

}  // namespace
}  // namespace inkling
