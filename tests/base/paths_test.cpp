#include "base/paths.h"

#include <gtest/gtest.h>

#include "tests/temporary_folder.h"

namespace inkling {
namespace {

TEST(Paths, NamesOfAFolderAreSortedAndHiddenOnesAreAmongThem) {
  const TemporaryFolder folder;
  for (const char* name : {"b", "a", ".c", "10", "9"}) write_file(folder / name, "");
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{".c", "10", "9", "a", "b"}));
}

TEST(Paths, WhatIsMissingOrAFileHoldsNothing) {
  const TemporaryFolder folder;
  write_file(folder / "file", "");
  EXPECT_TRUE(names_in(folder / "missing").empty());
  EXPECT_TRUE(names_in(folder / "file").empty());
  EXPECT_FALSE(is_there(folder / "missing"));
  EXPECT_FALSE(is_folder(folder / "file"));
}

// This name is too long, so nobody can look there, whatever their permissions are.
TEST(Paths, WhatCannotBeLookedAtIsNeverMissingOrEmpty) {
  const std::filesystem::path impossible = std::string(5000, 'x');
  EXPECT_TRUE(error_of([&] { names_in(impossible); }));
  EXPECT_TRUE(error_of([&] { is_there(impossible); }));
  EXPECT_TRUE(error_of([&] { is_folder(impossible); }));
}

}  // namespace
}  // namespace inkling
