// The header's checks, one claim each. A header is written out as JSON, so that every kind of damage can be tried.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "formats/safetensors.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

std::string file_with(std::string_view json, std::size_t data_size) {
  const std::uint64_t length = json.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes.append(json).append(data_size, '\7');
}

SafetensorsHeader parse(std::string_view bytes) {
  return parse_safetensors_header(std::as_bytes(std::span(bytes)), bytes.size(), "model.safetensors");
}

SafetensorsHeader parse_json(std::string_view json, std::size_t data_size) { return parse(file_with(json, data_size)); }

// Expects an Error input that names the file and mentions `why`.
void expect_refused(std::string_view bytes, const std::string& why) {
  const auto error = error_of([&] { parse(bytes); });
  ASSERT_TRUE(error) << "accepted: " << quote(bytes.substr(0, 200));
  EXPECT_EQ(error->kind(), ErrorKind::input);
  EXPECT_TRUE(error->message().starts_with("model.safetensors: ")) << error->message();
  EXPECT_NE(error->message().find(why), std::string::npos) << error->message();
}

void expect_json_refused(std::string_view json, std::size_t data_size, const std::string& why) {
  expect_refused(file_with(json, data_size), why);
}

TEST(SafetensorsHeader, EntriesComeInTheOrderOfTheirData) {
  const auto header = parse_json(
      R"( {"b":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},"z":{"shape":[0,7],"dtype":"I64","data_offsets":[10,10]}} )",
      10);
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, "BF16");
  EXPECT_TRUE(header.tensors[0].shape.empty());
  EXPECT_EQ(header.tensors[1].shape, (std::vector<std::uint64_t>{2, 1}));
  EXPECT_EQ(header.tensors[1].bytes(), 8U);
  EXPECT_EQ(header.tensors[2].bytes(), 0U);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, WhatTheReferenceReaderLetsPassPassesToo) {
  EXPECT_TRUE(parse_json("{}", 0).tensors.empty());
  EXPECT_TRUE(parse_json("\n\t {\"__metadata__\":null}\r\n", 0).metadata.empty());
  EXPECT_EQ(parse_json(R"({"a":["U8",[3],[0,3]]})", 3).tensors[0].bytes(), 3U);
  EXPECT_EQ(
      parse_json(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3],"more":{"x":[1e5,null]}}})", 3).tensors.size(),
      1U);
  EXPECT_EQ(parse_json(R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1).tensors[0].name, "");
  EXPECT_EQ(parse_json(R"({"../\u0000":["U8",[1],[0,1]]})", 1).tensors[0].name, std::string("../\0", 4));
  EXPECT_EQ(parse_json(R"({"a":["F4",[2],[0,1]],"b":["F6_E2M3",[4],[1,4]]})", 4).tensors.size(), 2U);
}

TEST(SafetensorsHeader, EveryDtypeIsKnownWithItsSize) {
  ASSERT_EQ(safetensors_dtypes.size(), 22U);
  for (const SafetensorsDtype& dtype : safetensors_dtypes) {
    const std::string offsets = std::to_string(dtype.bits);  // 8 elements take as many bytes as one takes bits
    const auto json = str(R"({"a":[")", dtype.name, R"(",[8],[0,)", offsets, "]]}");
    EXPECT_EQ(parse_json(json, dtype.bits).tensors[0].bytes(), dtype.bits);
    EXPECT_ANY_THROW(parse_json(json, dtype.bits + 1));
  }
}

TEST(SafetensorsHeader, LengthIsCheckedBeforeItIsBelieved) {
  expect_refused("", "shorter than 8 bytes");
  expect_refused("1234567", "shorter than 8 bytes");
  const std::string whole = file_with(R"({"a":["U8",[1],[0,1]]})", 1);
  for (std::size_t cut = 8; cut + 1 < whole.size(); ++cut) expect_refused(whole.substr(0, cut), "cut short");
  expect_refused(whole.substr(0, whole.size() - 1), "cut short");
  expect_refused(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "100,000,000");
  expect_refused(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8) + "{}", "100,000,000 is the limit");
  expect_refused(std::string("\0\xe1\xf5\x05\0\0\0\0", 8) + "{}", "cut short");
  expect_refused(std::string(8, '\0'), "not JSON");
}

TEST(SafetensorsHeader, TextThatIsNoJsonObjectIsRefused) {
  for (const char* json : {"[]", "null", "3", "\"text\""}) expect_json_refused(json, 0, "not a JSON object");
  for (const char* json : {"", " ", "{", "{}{}", "{\"a\":}", "{'a':1}", "{\"a\":1,}", "// \n{}", "{\"a\":nan}",
                           "{\"a\":01}", "{\"a\":\"\\ud800\"}", "{\"a\":\"\n\"}"}) {
    expect_json_refused(json, 0, "not JSON");
  }
  expect_json_refused("{\"\xff\":null}", 0, "not UTF-8 at byte 10");
  expect_json_refused("{\"\xed\xa0\x80\":null}", 0, "not UTF-8");
  expect_json_refused("\xef\xbb\xbf{}", 0, "byte order mark");
  expect_json_refused(std::string("{}\0", 3), 0, "not JSON: see byte 3");
  expect_json_refused(std::string("{}\0garbage", 10), 0, "not JSON: see byte 3");
  expect_json_refused(R"({"a":["U8",[1],[0,1],1e999]})", 1, "number");
}

TEST(SafetensorsHeader, NestingHasALimitOf127) {
  const auto nested = [](std::size_t depth) {  // in a field that is otherwise ignored; entry and header are two levels
    return R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":)" + std::string(depth - 2, '[') +
           std::string(depth - 2, ']') + "}}";
  };
  EXPECT_EQ(parse_json(nested(127), 1).tensors.size(), 1U);
  expect_json_refused(nested(128), 1, "nests deeper than 127 levels");
  expect_json_refused(std::string(1000000, '['), 0, "nests deeper than 127 levels");
}

TEST(SafetensorsHeader, NoNameMayBeGivenTwice) {
  expect_json_refused(R"({"a":["U8",[1],[0,1]],"a":["U8",[1],[0,1]]})", 1, "\"a\" is given twice");
  expect_json_refused(R"({"a":["U8",[1],[0,1]],"\u0061":["U8",[1],[1,2]]})", 2, "\"a\" is given twice");
  expect_json_refused(R"({"__metadata__":{},"__metadata__":{}})", 0, "\"__metadata__\" is given twice");
  expect_json_refused(R"({"__metadata__":{"k":"1","k":"2"}})", 0, "\"k\" is given twice");
  expect_json_refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
                      "\"dtype\" is given twice");
  const char* same_fields =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})";
  EXPECT_EQ(parse_json(same_fields, 2).tensors.size(), 2U);
}

TEST(SafetensorsHeader, EntriesMustBeComplete) {
  expect_json_refused(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1, "tensor \"a\" has no dtype");
  expect_json_refused(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, "has no shape");
  expect_json_refused(R"({"a":{"dtype":"U8","shape":[1]}})", 1, "has no data_offsets");
  for (const char* entry : {"null", "1", "\"U8\"", "[]", "[\"U8\",[1]]", "[\"U8\",[1],[0,1],0]"}) {
    expect_json_refused(str("{\"a\":", entry, "}"), 1, "is not an object");
  }
}

TEST(SafetensorsHeader, TypesOfFieldsAreChecked) {
  const auto with = [](const char* dtype, const char* shape, const char* offsets) {
    return str(R"({"a":{"dtype":)", dtype, R"(,"shape":)", shape, R"(,"data_offsets":)", offsets, "}}");
  };
  for (const char* dtype : {"\"F33\"", "\"f32\"", "\"\"", "null", "32", "[]"}) {
    expect_json_refused(with(dtype, "[1]", "[0,1]"), 1, "unknown dtype");
  }
  for (const char* shape :
       {"[-1]", "[1.0]", "[1e0]", "[\"1\"]", "[null]", "[[1]]", "[true]", "[18446744073709551616]", "[-0]"}) {
    expect_json_refused(with("\"U8\"", shape, "[0,1]"), 1, "whole numbers");
  }
  expect_json_refused(with("\"U8\"", "1", "[0,1]"), 1, "not a list");
  expect_json_refused(with("\"U8\"", "[1]", "{\"0\":1}"), 1, "not a list");
  expect_json_refused(with("\"U8\"", "[1]", "[0]"), 1, "instead of 2");
  expect_json_refused(with("\"U8\"", "[1]", "[0,1,1]"), 1, "instead of 2");
  expect_json_refused(R"({"__metadata__":[]})", 0, "__metadata__ is not an object");
  expect_json_refused(R"({"__metadata__":{"k":1}})", 0, "something other than text at \"k\"");
}

TEST(SafetensorsHeader, SizesThatOverflowAreRefused) {
  expect_json_refused(R"({"a":["U8",[4294967296,4294967296],[0,0]]})", 0, "larger than any file");
  expect_json_refused(R"({"a":["F64",[2305843009213693952],[0,0]]})", 0, "larger than any file");
  expect_json_refused(R"({"a":["U8",[9223372036854775808,4,0],[0,0]]})", 0, "larger than any file");
  expect_json_refused(R"({"a":["U8",[1],[18446744073709551615,0]]})", 1, "ends before it begins");
}

TEST(SafetensorsHeader, EveryByteBelongsToOneTensor) {
  expect_json_refused(R"({"a":["U8",[2],[0,1]]})", 1, "takes 2 bytes, but its data_offsets span 1");
  expect_json_refused(R"({"a":["F4",[3],[0,1]]})", 1, "whole bytes");
  expect_json_refused(R"({"a":["U8",[1],[1,2]]})", 2, "begins at byte 1 of the data instead of 0");
  expect_json_refused(R"({"a":["U8",[2],[0,2]],"b":["U8",[2],[1,3]]})", 3, "begins at byte 1 of the data instead of 2");
  expect_json_refused(R"({"a":["U8",[2],[0,2]],"b":["U8",[2],[0,2]]})", 2, "instead of 2");
  expect_json_refused(R"({"a":["U8",[1],[0,1]],"b":["U8",[1],[2,3]]})", 3, "instead of 1");
  expect_json_refused(R"({"a":["U8",[1],[0,1]]})", 2, "the tensors take 1 bytes, but 2 follow the header");
  expect_json_refused(R"({"a":["U8",[3],[0,3]]})", 2, "cut short");
  expect_json_refused("{}", 1, "the tensors take 0 bytes, but 1 follow");
}

}  // namespace
}  // namespace inkling
