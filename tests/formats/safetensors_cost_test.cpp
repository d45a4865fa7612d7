// What it costs to read a header, however many tensors it names and whatever its purpose: time n log n, and memory of a
// few times its bytes.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <limits>
#include <new>
#include <span>
#include <string>

#include "base/strings.h"
#include "formats/safetensors.h"

namespace {

std::size_t allocated = 0, max_allocated = 0;  // bytes, by operator new

}  // namespace

void* operator new(std::size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  allocated += malloc_usable_size(memory);
  max_allocated = std::max(max_allocated, allocated);
  return memory;
}

void operator delete(void* memory) noexcept {
  allocated -= malloc_usable_size(memory);
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace inkling {
namespace {

std::string file_of(const std::string& json) {
  const std::uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + json;
}

SafetensorsHeader parse_file(const std::string& bytes, std::size_t data_size) {
  return parse_safetensors_header(std::as_bytes(std::span(bytes)), bytes.size() + data_size, "model.safetensors");
}

std::string header_of(std::size_t tensors) {
  std::string json = "{";
  for (std::size_t i = 0; i < tensors; ++i) {
    json += str(i == 0 ? "" : ",", "\"transformer.h.", i, ".mlp.c_proj.bias\":{\"dtype\":\"F32\",\"shape\":[2],",
                "\"data_offsets\":[", 8 * i, ",", 8 * i + 8, "]}");
  }
  return json + "}";
}

// Returns the time of this thread, which a busy machine does not lengthen; the least of three runs.
double processor_seconds(std::size_t tensors) {
  const std::string file = file_of(header_of(tensors));
  double least = std::numeric_limits<double>::infinity();
  for (int turn = 0; turn < 3; ++turn) {
    timespec begin{}, end{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    EXPECT_EQ(parse_file(file, 8 * tensors).tensors.size(), tensors);
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    least = std::min(least, static_cast<double>(end.tv_sec - begin.tv_sec) +
                                1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec));
  }
  return least;
}

// 16 times as many tensors take 256 times as long where the time is quadratic, and 22 times where it is n log n. The
// limit is halfway between, in powers of n: 16^1.5.
TEST(SafetensorsCost, TimeGrowsHardlyFasterThanTheNumberOfTensors) {
  EXPECT_LT(processor_seconds(32'000), 64 * processor_seconds(2'000));
}

// Returns the most bytes that are allocated at one time while a header is read, divided by its own.
double memory_ratio(const std::string& json, std::size_t data_size) {
  const std::string file = file_of(json);
  const std::size_t before = allocated;
  max_allocated = allocated;
  parse_file(file, data_size);
  return static_cast<double>(max_allocated - before) / static_cast<double>(file.size());
}

std::string repeated(std::size_t count, const std::function<std::string(std::size_t)>& item) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + item(i);
  return text;
}

TEST(SafetensorsCost, MemoryIsAFewTimesTheHeader) { EXPECT_LT(memory_ratio(header_of(100'000), 800'000), 6); }

// As a tree of values these took more than 20 times their bytes. Allowed is what one item takes over the bytes that it
// is written in, thrice where items stand in a vector: while that grows to twice its size, it is there in both.
TEST(SafetensorsCost, MemoryStaysSmallForHeadersMadeToTakeMuch) {
  const std::string entry = R"("dtype":"U8","shape":[1],"data_offsets":[0,1])";
  const auto lists = repeated(300'000, [](std::size_t) { return "[]"; });  // the JSON library keeps what it read last
  EXPECT_LE(memory_ratio("{\"a\":{" + entry + ",\"x\":[" + lists + "]}}", 1), 3.1);
  const auto sizes = repeated(300'000, [](std::size_t) { return "1"; });  // 8 bytes for 2
  EXPECT_LE(memory_ratio("{\"a\":[\"U8\",[" + sizes + "],[0,1]]}", 1), 12.1);
  // A name, its end and its place in the order, 5 + 8 + 16 bytes for 9 to 10.
  const auto names = repeated(100'000, [](std::size_t i) { return str("\"", i, "\":0"); });
  EXPECT_LE(memory_ratio("{\"a\":{" + entry + "," + names + "}}", 1), 3 * 29 / 9.0);
  // An entry of 104 bytes and its shape for 27.
  const auto tensors = repeated(100'000, [](std::size_t i) { return str("\"", i, "\":[\"U8\",[0],[0,0]]"); });
  EXPECT_LE(memory_ratio("{" + tensors + "}", 0), 3 * (sizeof(TensorEntry) + 32) / 27.0);
  // A node of a tree with two strings for 11.
  const auto metadata = repeated(100'000, [](std::size_t i) { return str("\"", i, "\":\"\""); });
  EXPECT_LE(memory_ratio("{\"__metadata__\":{" + metadata + "}}", 0), (32 + 2 * sizeof(std::string) + 16) / 10.0);
}

}  // namespace
}  // namespace inkling
