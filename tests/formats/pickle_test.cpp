// Pickles are told by name or first bytes, and refused with the reason and the remedy.
#include "formats/foreign_file.h"

#include <gtest/gtest.h>

#include <string>

#include "formats/token_file.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

constexpr std::string_view torch_file("PK\x03\x04\0\0archive/data.pkl", 22), bare_pickle("\x80\x04\x95 and so on");
constexpr std::string_view reason =
    " is a Python pickle, which can run any program when it is opened, so it is not read; ";

TEST(Pickle, IsRefusedWithTheCommandForItsKind) {
  const auto message = [](const char* name) { return input_error([&] { refuse_pickle(name); }); };
  EXPECT_EQ(message("data/meta.pkl"),
            "data/meta.pkl" + std::string(reason) +
                "if it is nanoGPT's vocabulary, scripts/from-nanogpt data/meta.pkl FOLDER writes it as "
                "FOLDER/inkling_tokenizer.json, and runs nothing");
  EXPECT_TRUE(message("out/ckpt.pt").starts_with("out/ckpt.pt" + std::string(reason)));
  EXPECT_TRUE(contains(message("out/ckpt.pt"), "scripts/from-nanogpt out/ckpt.pt META.pkl FOLDER"));
  EXPECT_TRUE(contains(message("pytorch_model.bin"), "safe_serialization=True"));
}

TEST(Pickle, IsToldByNameOrByFirstBytes) {
  const TemporaryFolder folder;
  for (const char* name : {"meta.pkl", "ckpt.pt", "a.pth", "a.ckpt", "a.pickle"}) {
    const std::string path = folder.write(name, "anything");
    EXPECT_TRUE(contains(input_error([&] { refuse_if_pickle(path); }), path + std::string(reason)));
  }
  for (const std::string_view bytes : {torch_file, bare_pickle}) {
    const std::string path = folder.write("weights", bytes);
    EXPECT_TRUE(contains(input_error([&] { refuse_if_pickle(path); }), path + std::string(reason)));
  }
  for (const std::string_view bytes :
       {std::string_view("PK"), std::string_view("\x80"), std::string_view("\x80\x41text")}) {
    EXPECT_NO_THROW(refuse_if_pickle(folder.write("weights", bytes)));
  }
  EXPECT_NO_THROW(refuse_if_pickle(folder / "nothing.pkl"));  // whoever opens it says that it is missing
  EXPECT_NO_THROW(refuse_if_pickle(folder.path()));
}

TEST(Pickle, UnderTheNameOfATokenFileIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.write("pytorch_model.bin", std::string(torch_file) + std::string(4000, 'x'));
  for (const TokenLayout layout : {TokenLayout::with_header, TokenLayout::headerless}) {
    EXPECT_TRUE(contains(input_error([&] { TokenShard shard(path, layout); }), path + std::string(reason)));
  }
  write_file(path, "\x80\x02");  // 640, a token like another where there is no header
  EXPECT_TRUE(contains(input_error([&] { TokenShard shard(path); }), std::string(reason)));
  EXPECT_EQ(TokenShard(path, TokenLayout::headerless).count(), 1u);
}

}  // namespace
}  // namespace inkling
