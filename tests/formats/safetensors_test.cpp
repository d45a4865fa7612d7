#include "formats/safetensors.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

struct Tensor {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> bytes;

  TensorToWrite to_write() const { return {.name = name, .dtype = dtype, .shape = shape, .bytes = bytes}; }
};

std::vector<TensorToWrite> to_write(const std::vector<Tensor>& tensors) {
  std::vector<TensorToWrite> views;
  for (const Tensor& tensor : tensors) views.push_back(tensor.to_write());
  return views;
}

Tensor tensor_of(std::string name, std::string dtype, std::vector<std::uint64_t> shape, std::size_t bytes) {
  return {std::move(name), std::move(dtype), std::move(shape), std::vector<std::byte>(bytes, std::byte{7})};
}

std::string random_text() {
  std::string text;
  const auto code_points =
      *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(0, 0x110000));
  for (const std::uint32_t code_point : code_points) {
    if (code_point < 0xd800 || code_point > 0xdfff) append_utf8(text, code_point);
  }
  return text;
}

std::vector<Tensor> random_tensors() {
  std::vector<Tensor> tensors;
  const auto count = *rc::gen::inRange<std::size_t>(0, 6);
  for (std::size_t i = 0; i < count; ++i) {
    const SafetensorsDtype& dtype =
        *rc::gen::elementOf(std::vector(safetensors_dtypes.begin(), safetensors_dtypes.end()));
    auto shape =
        *rc::gen::resize(4, rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 5)));
    shape.push_back(4);  // so that 4 and 6 bits fill whole bytes
    std::uint64_t elements = 1;
    for (const std::uint64_t size : shape) elements *= size;
    auto bytes =
        *rc::gen::container<std::vector<std::uint8_t>>(elements * dtype.bits / 8, rc::gen::arbitrary<std::uint8_t>());
    const auto view = std::as_bytes(std::span(bytes));
    tensors.push_back({random_text() + std::to_string(i), std::string(dtype.name), shape, {view.begin(), view.end()}});
  }
  return tensors;
}

TEST(Safetensors, WhatIsWrittenIsReadBack) {
  const TemporaryFolder folder;
  EXPECT_TRUE(rc::check([&] {
    const std::vector<Tensor> tensors = random_tensors();
    std::map<std::string, std::string> metadata;
    if (*rc::gen::arbitrary<bool>()) metadata = {{random_text(), random_text()}, {"format", "pt"}};
    write_safetensors(folder / "model.safetensors", to_write(tensors), metadata);

    const SafetensorsFile file(folder / "model.safetensors");
    RC_ASSERT(file.header().metadata == metadata);
    RC_ASSERT(file.header().data_offset % 8 == 0U);
    RC_ASSERT(file.header().tensors.size() == tensors.size());
    for (const Tensor& tensor : tensors) {
      const TensorEntry* entry = file.find(tensor.name);
      RC_ASSERT(entry != nullptr);
      RC_ASSERT(entry->dtype == tensor.dtype);
      RC_ASSERT(entry->shape == tensor.shape);
      std::vector<std::byte> bytes(entry->bytes());
      file.read(*entry, bytes);
      RC_ASSERT(bytes == tensor.bytes);
    }
    RC_ASSERT(file.find("not there") == nullptr);
  }));
}

// The bytes that safetensors 0.8's own writer makes of the same tensors.
TEST(Safetensors, BytesAreThoseOfTheReferenceWriter) {
  const TemporaryFolder folder;
  const std::vector<Tensor> tensors = {tensor_of("b", "F32", {1}, 4), tensor_of("small", "U8", {3}, 3),
                                       tensor_of("a\"\n\x01\xc3\xa9", "F32", {1, 1}, 4),
                                       tensor_of("half", "F16", {2}, 4), tensor_of("ids", "I64", {}, 8)};
  write_safetensors(folder / "model.safetensors", to_write(tensors), {{"format", "pt"}});
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"ids":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("a\"\n\u0001)"
      "\xc3\xa9"
      R"(":{"dtype":"F32","shape":[1,1],"data_offsets":[8,12]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]},"half":{"dtype":"F16","shape":[2],"data_offsets":[16,20]},)"
      R"("small":{"dtype":"U8","shape":[3],"data_offsets":[20,23]}})";
  const std::string padding((8 - json.size() % 8) % 8, ' ');
  const std::uint64_t length = json.size() + padding.size();
  const std::string expected =
      std::string(reinterpret_cast<const char*>(&length), 8) + json + padding + std::string(23, '\7');
  EXPECT_EQ(read_file(folder / "model.safetensors"), expected);
}

TEST(Safetensors, WrongTensorsNeverReachTheDisk) {
  const TemporaryFolder folder;
  const auto expect_refused = [&](const std::vector<Tensor>& tensors, ErrorKind kind, const std::string& why) {
    const auto error = error_of([&] { write_safetensors(folder / "model.safetensors", to_write(tensors), {}); });
    ASSERT_TRUE(error) << why;
    EXPECT_EQ(error->kind(), kind);
    EXPECT_NE(error->message().find(why), std::string::npos) << error->message();
  };
  expect_refused({tensor_of("a", "F32", {2}, 4)}, ErrorKind::internal, "takes 8 bytes");
  expect_refused({tensor_of("a", "float", {2}, 8)}, ErrorKind::internal, "unknown dtype \"float\"");
  expect_refused({tensor_of("a", "U8", {1}, 1), tensor_of("a", "U8", {1}, 1)}, ErrorKind::internal, "given twice");
  expect_refused({tensor_of("__metadata__", "U8", {1}, 1)}, ErrorKind::internal, "__metadata__");
  expect_refused({tensor_of("a\xff", "U8", {1}, 1)}, ErrorKind::input, "\"a\\xff\": it is not UTF-8");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Safetensors, ReadingIntoTheWrongSizeIsAnInternalError) {
  const TemporaryFolder folder;
  write_safetensors(folder / "model.safetensors", to_write({tensor_of("a", "U8", {4}, 4)}), {});
  const SafetensorsFile file(folder / "model.safetensors");
  std::vector<std::byte> small(3);
  const auto error = error_of([&] { file.read(*file.find("a"), small); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::internal);
}

TEST(Safetensors, EveryCutAndEveryAppendedByteIsRefusedWithTheFilesName) {
  const TemporaryFolder folder;
  const fs::path path = folder / "model.safetensors";
  write_safetensors(path, to_write({tensor_of("a", "F32", {3}, 12), tensor_of("b", "U8", {5}, 5)}), {{"k", "v"}});
  const std::string whole = read_file(path);
  for (std::size_t size = 0; size <= whole.size() + 1; ++size) {
    if (size == whole.size()) continue;
    write_file(path, (whole + "x").substr(0, size));
    const auto error = error_of([&] { SafetensorsFile file(path); });
    ASSERT_TRUE(error) << "accepted after a cut to " << size << " bytes";
    EXPECT_EQ(error->kind(), ErrorKind::input);
    EXPECT_TRUE(error->message().starts_with(path.string())) << error->message();
  }
}

// Whatever the bytes, the parser either throws inkling::Error or returns entries that cover the file.
TEST(Safetensors, NoDamagedHeaderIsBelievedOrCrashes) {
  const TemporaryFolder folder;
  const std::vector<Tensor> tensors = {tensor_of("wte.weight", "F32", {3, 2}, 24), tensor_of("mask", "BOOL", {7}, 7)};
  write_safetensors(folder / "model.safetensors", to_write(tensors), {{"format", "pt"}});
  const std::string whole = read_file(folder / "model.safetensors");
  const std::size_t head = whole.size() - 31;
  const std::string_view spices = "\"{}[],:0123456789-eE.\\ un\xff\xc3\x80";
  int refused = 0;
  for (std::uint64_t round = 0; round < 20000; ++round) {
    const std::uint64_t key = random_key(round, Purpose::sampling, 0);
    std::string bytes = whole;
    for (std::uint64_t change = 0; change <= random_below(key, 0, 4); ++change) {
      const std::uint64_t index = 4 * change + 1;
      char& byte = bytes[random_below(key, index, head)];
      if (random_below(key, index + 1, 2) == 0)
        byte = static_cast<char>(byte ^ (1 << random_below(key, index + 2, 8)));
      else
        byte = spices[random_below(key, index + 2, spices.size())];
    }
    try {
      const auto header = parse_safetensors_header(std::as_bytes(std::span(bytes)), bytes.size(), "damaged");
      std::uint64_t covered = header.data_offset;
      for (const TensorEntry& tensor : header.tensors) covered += tensor.bytes();
      ASSERT_EQ(covered, bytes.size());
    } catch (const Error& error) {
      ++refused;
      ASSERT_EQ(error.kind(), ErrorKind::input) << error.message();
      ASSERT_TRUE(error.message().starts_with("damaged: ")) << error.message();
    }
  }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace inkling
