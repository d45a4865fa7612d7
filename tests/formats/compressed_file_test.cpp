// gzip and zstd: all of a text or an Error, whatever the file holds.
#include "formats/compressed_file.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "tests/compressed.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

// The whole text, asked for in pieces of this size.
std::string read_text(const fs::path& path, std::size_t piece = 1 << 16) {
  CompressedFile file(path);
  std::string text, buffer(piece, '\0');
  while (const std::size_t count = file.read(std::as_writable_bytes(std::span(buffer)))) text.append(buffer, 0, count);
  EXPECT_EQ(file.bytes_read(), fs::file_size(path));
  EXPECT_EQ(file.hash(), hash_file(path));
  return text;
}

// Words that come again, and some that do not, so that compressors have something to do.
std::string some_words(std::size_t count) {
  std::string text;
  const std::uint64_t key = random_key(1, Purpose::sampling, 0);
  for (std::size_t i = 0; i < count; ++i) {
    text += "word" + std::to_string(random_below(key, i, i % 3 == 0 ? 1'000'000 : 20)) + (i % 9 == 0 ? "\n" : " ");
  }
  return text;
}

struct Kind {
  std::string name;  // of the file
  std::string (*compress)(std::string_view, int);
};
const std::vector<Kind> kinds{{"a.txt.gz", gzip_of}, {"a.txt.zst", zstd_of}};

TEST(CompressedName, TellsTheCompressionAndWhatIsInside) {
  EXPECT_EQ(compression_of("a.txt.gz"), Compression::gzip);
  EXPECT_EQ(compression_of("b/a.jsonl.zst"), Compression::zstd);
  EXPECT_EQ(compression_of("a.txt"), Compression::none);
  EXPECT_EQ(compression_of("gz"), Compression::none);
  EXPECT_EQ(decompressed_name("b/a.jsonl.zst"), fs::path("b/a.jsonl"));
  EXPECT_EQ(decompressed_name("a.v1.txt"), fs::path("a.v1.txt"));
}

TEST(CompressedFile, GivesItsTextWhateverPiecesItWasMadeOfAndIsAskedFor) {
  const TemporaryFolder folder;
  const std::string words = some_words(60'000);
  EXPECT_TRUE(rc::check([&] {
    const Kind& kind = *rc::gen::elementOf(kinds);
    const std::string text = words.substr(0, *rc::gen::inRange<std::size_t>(0, words.size()));
    std::string compressed;
    for (std::size_t at = 0; at < text.size() || compressed.empty();) {
      const std::size_t length = *rc::gen::inRange<std::size_t>(0, 200'000);
      compressed += kind.compress(std::string_view(text).substr(at, length), *rc::gen::inRange(1, 10));
      if (kind.compress == zstd_of && *rc::gen::inRange(0, 2) == 0) compressed += skippable_frame("a note");
      at = std::min(at + length, text.size());
    }
    const std::string path = folder.write(kind.name, compressed);
    RC_ASSERT(read_text(path, *rc::gen::inRange<std::size_t>(1, 300'000)) == text);
  }));
}

TEST(CompressedFile, OfNoTextIsEmpty) {
  const TemporaryFolder folder;
  for (const Kind& kind : kinds) EXPECT_EQ(read_text(folder.write(kind.name, kind.compress("", 3))), "");
  EXPECT_EQ(read_text(folder.write("a.zst", skippable_frame("") + skippable_frame("note"))), "");
}

TEST(CompressedFile, CutShortAnywhereIsRefusedByName) {
  const TemporaryFolder folder;
  for (const Kind& kind : kinds) {
    const std::string whole = kind.compress(some_words(200), 3);
    ASSERT_GT(whole.size(), 200u);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const std::string path = folder.write(kind.name, whole.substr(0, size));
      const std::string message = input_error([&] { read_text(path); });
      EXPECT_TRUE(message.starts_with(path + (size < 4 ? ": is not compressed by " : ": breaks off after ")))
          << message;
    }
  }
}

TEST(CompressedFile, WithFlippedBitsIsRefusedOrGivesItsText) {
  const TemporaryFolder folder;
  for (const Kind& kind : kinds) {
    const std::string text = some_words(200), whole = kind.compress(text, 3);
    int refused = 0;
    for (std::uint64_t flip = 0; flip < 500; ++flip) {
      std::string bytes = whole;
      const std::uint64_t bit = random_below(random_key(2, Purpose::sampling, 0), flip, 8 * whole.size());
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      const std::string path = folder.write(kind.name, bytes);
      std::string read;
      const auto error = error_of([&] { read = read_text(path); });
      if (!error) {
        EXPECT_EQ(read, text) << kind.name << " bit " << bit;
        continue;
      }
      ++refused;
      EXPECT_EQ(error->kind(), ErrorKind::input);
      EXPECT_TRUE(error->message().starts_with(path + ": ")) << error->message();
    }
    EXPECT_GT(refused, 400) << kind.name;  // the others lie in a header's time of day and the like
  }
}

TEST(CompressedFile, WithAnythingElseBehindItsEndIsRefused) {
  const TemporaryFolder folder;
  for (const Kind& kind : kinds) {
    const std::string whole = kind.compress("hello", 3);
    for (const std::string& appended :
         {std::string("x"), std::string(512, '\0'), std::string("more text, not compressed")}) {
      const std::string path = folder.write(kind.name, whole + appended);
      const std::string message = input_error([&] { read_text(path); });
      EXPECT_TRUE(contains(message, path + ": goes on at byte " + std::to_string(whole.size()) + ", behind its text"));
    }
  }
}

TEST(CompressedFile, ThatIsSomethingElseIsRefused) {
  const TemporaryFolder folder;
  for (const Kind& kind : kinds) {
    for (const std::string& other : {std::string(""), std::string("plain text"), skippable_frame("").substr(0, 3)}) {
      const std::string path = folder.write(kind.name, other);
      EXPECT_TRUE(contains(input_error([&] { CompressedFile file(path); }), path + ": is not compressed by "));
    }
  }
  // A frame of zstd 0.7, which the library may still read.
  const std::string old = folder.write("old.zst", std::string_view("\x27\xb5\x2f\xfd\x00\x00\x00\x00", 8));
  EXPECT_TRUE(contains(input_error([&] { CompressedFile file(old); }), "is not compressed by zstd"));
}

// A frame that holds nothing, and asks for a window of 2^log bytes.
std::string frame_with_window(int log) {
  return std::string("\x28\xb5\x2f\xfd\x00", 5) + static_cast<char>((log - 10) << 3) + std::string("\x01\x00\x00", 3);
}

TEST(CompressedFile, AWindowOfMoreThan128MiBIsRefusedWithTheRemedy) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_text(folder.write("a.zst", frame_with_window(27))), "");
  for (const int log : {28, 31, 41}) {
    const std::string path = folder.write("a.zst", frame_with_window(log));
    EXPECT_TRUE(contains(input_error([&] { read_text(path); }), path + ": takes a window of more than 128 MiB"));
  }
}

TEST(CompressedFile, ADictionaryThatIsNotThereIsNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.zst", std::string_view("\x28\xb5\x2f\xfd\x01\x58\x07\x01\x00\x00", 10));
  EXPECT_TRUE(contains(input_error([&] { read_text(path); }), path + ": was compressed with a dictionary"));
}

TEST(CompressedFile, AThousandfoldTextTakesTimeAndNoMemory) {
  const TemporaryFolder folder;
  const auto peak_kib = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const std::string zeros(std::size_t{1} << 20, '\0');
  std::string gzip, zstd;
  for (int i = 0; i < 256; ++i) gzip += gzip_of(zeros), zstd += zstd_of(zeros);
  std::string buffer(std::size_t{1} << 20, '\0');
  const long before = peak_kib();
  for (const std::string& path : {folder.write("a.gz", gzip), folder.write("a.zst", zstd)}) {
    CompressedFile file(path);
    std::uint64_t total = 0;
    while (const std::size_t count = file.read(std::as_writable_bytes(std::span(buffer)))) total += count;
    EXPECT_EQ(total, 256 * zeros.size());
  }
  EXPECT_LT(peak_kib() - before, 32 << 10);  // twice the window that zstd takes for such a text, and the buffers
}

}  // namespace
}  // namespace inkling
