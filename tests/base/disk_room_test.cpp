// Whether what is to be written has room on disks that were invented.
#include "base/disk_room.h"

#include <gtest/gtest.h>

#include "tests/temporary_folder.h"

namespace inkling {
namespace {

constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30;

DiskSpace disk(std::uint64_t device, std::uint64_t free, const std::string& folder) {
  return {.folder = folder, .device = device, .total = 100 * gibibyte, .free = free};
}

std::string lack(const std::vector<ToWrite>& all) { return describe_lack_of_room(all); }

TEST(DiskRoom, WhatGoesOnTheSameDiskIsAddedUp) {
  const ToWrite checkpoints = {"checkpoints", 3 * gibibyte, disk(1, 3 * gibibyte, "/home/me/runs")};
  const ToWrite data = {"data", gibibyte, disk(1, 3 * gibibyte, "/home/me/data")};
  const ToWrite elsewhere = {"data", gibibyte, disk(2, gibibyte, "/big")};
  EXPECT_EQ(lack({checkpoints}), "");
  EXPECT_EQ(lack({checkpoints, elsewhere}), "");
  EXPECT_EQ(lack({checkpoints, data}),
            "checkpoints take about 3.0 GiB and data 1.0 GiB, but 3.0 GiB are free on the disk of /home/me/runs");
}

TEST(DiskRoom, EachDiskThatIsTooSmallIsNamed) {
  const ToWrite checkpoints = {"checkpoints", 3 * gibibyte, disk(1, gibibyte, "/a")};
  const ToWrite data = {"data", 2 * gibibyte, disk(2, gibibyte, "/b")};
  EXPECT_EQ(lack({checkpoints, data}),
            "checkpoints take about 3.0 GiB, but 1.0 GiB are free on the disk of /a; "
            "data take about 2.0 GiB, but 1.0 GiB are free on the disk of /b");
}

TEST(DiskRoom, ADiskThatDoesNotSayHasRoom) {
  EXPECT_EQ(lack({ToWrite{"checkpoints", 3 * gibibyte, {.folder = "/fuse"}}}), "");
}

TEST(DiskRoom, AFolderThatIsNotThereIsOnTheDiskOfTheNearestThatIs) {
  const TemporaryFolder here;
  const DiskSpace space = disk_space(here / "not/there");
  EXPECT_EQ(space.folder, here.path());
  EXPECT_EQ(space.device, disk_space("/" / here.path()).device);
  EXPECT_GT(space.total, 0U);
  here.write("not/there", "1234");
  here.write("a", "567");
  EXPECT_EQ(bytes_below(here.path()), 7U);
  EXPECT_EQ(bytes_below(here / "nowhere"), 0U);
}

}  // namespace
}  // namespace inkling
