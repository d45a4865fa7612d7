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

TEST(Paths, ANameIsOneThatAFileOfTheFolderCanHave) {
  for (const char* name : {"a", ".a", "...", "a b", "\xff"}) EXPECT_TRUE(is_file_name(name)) << name;
  for (const std::string& name : {std::string(), std::string("."), std::string(".."), std::string("a/b"),
                                  std::string("/"), std::string("a\0b", 3)}) {
    EXPECT_FALSE(is_file_name(name)) << name;
  }
  EXPECT_TRUE(is_inside("runs/a", "runs"));
  EXPECT_FALSE(is_inside("runs/a/b", "runs"));
}

TEST(Paths, TheNearestNameBesideIsOneWithTheExtension) {
  const TemporaryFolder folder;
  for (const char* name : {"fables.yaml", "fables.yml", "other.yaml"}) write_file(folder / name, "");
  EXPECT_EQ(nearest_beside(folder / "fabels.yml"), folder / "fables.yml");
  EXPECT_EQ(nearest_beside(folder / "fabels.yml", ".yaml"), folder / "fables.yaml");
  EXPECT_EQ(nearest_beside(folder / "something"), std::nullopt);
  EXPECT_EQ(nearest_beside(folder / "missing" / "fables.yaml"), std::nullopt);
  EXPECT_EQ(nearest_beside(std::string(5000, 'x') + "/fables.yaml"), std::nullopt) << "which cannot be looked at";
}

}  // namespace
}  // namespace inkling
