#include "base/system_files.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

#include "tests/temporary_folder.h"

namespace inkling {
namespace {

ErrorKind kind_of_reading(int code) {
  const std::optional<Error> error = error_of([&] { throw_read_error("runs/a", code); });
  EXPECT_TRUE(error && error->message().starts_with("cannot read runs/a: "));
  return error ? error->kind() : ErrorKind::internal;
}

TEST(FileErrors, WhatIsNotThereIsThePersonsAndWhatCannotBeReadIsTheMachines) {
  for (const int code : {ENOENT, ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG, ENXIO, ENODEV}) {
    EXPECT_EQ(kind_of_reading(code), ErrorKind::input) << code;
  }
  for (const int code : {EIO, EMFILE, ENFILE, EACCES, EPERM, ENOMEM, ESTALE, ETIMEDOUT, EINVAL, EOVERFLOW}) {
    EXPECT_EQ(kind_of_reading(code), ErrorKind::environment) << code;
  }
}

TEST(FileErrors, AFaultyDiskIsNotTakenForAFileThatIsNoGood) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/proc/self/mem", folder / "state.json");  // opens, and its first byte reads as EIO
  const InputFile file(folder / "state.json");
  std::byte byte{};
  const std::optional<Error> error = error_of([&] { file.read_some(0, {&byte, 1}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::environment);
  EXPECT_TRUE(contains(error->message(), "state.json")) << error->message();
}

}  // namespace
}  // namespace inkling
