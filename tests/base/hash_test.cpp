#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>

#include "base/files.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

// What the xxHash project's own binding for Python prints (xxh3_128).
TEST(Hash, AgreesWithTheReference) {
  EXPECT_EQ(hash_text(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_text("abc"), "06b05ab6733a618578af5f94892f3950");
  EXPECT_EQ(hash_text("inkling"), "b03fc6a1bb4be52d34dbe028b0c7e52d");
}

TEST(Hash, OfALongFileAgreesWithTheReferenceHoweverItIsCut) {
  std::string bytes(3000000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 % 256);
  const std::string expected = "59fe9035d95abf22fc8f91e23f793eae";
  EXPECT_EQ(hash_text(bytes), expected);

  Hasher pieces;
  for (std::size_t at = 0, step = 1; at < bytes.size(); at += step, step = step * 3 % 10007 + 1) {
    pieces.update(std::string_view(bytes).substr(at, step));
  }
  EXPECT_EQ(pieces.hex(), expected);
  EXPECT_EQ(pieces.hex(), expected) << "reading the hash must not change it";

  const TemporaryFolder folder;
  write_file(folder / "bytes", bytes);
  EXPECT_EQ(hash_file(folder / "bytes"), expected);
}

TEST(Hash, OfAMissingFileIsAnInputError) {
  const auto error = error_of([] { hash_file("/nonexistent/file"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::input);
}

}  // namespace
}  // namespace inkling
