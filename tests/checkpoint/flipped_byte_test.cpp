// A single byte that differs from what was written is noticed, in any file of a checkpoint and at any place.
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/random.h"
#include "checkpoint/checkpoint.h"
#include "tests/checkpoint/tiny_run.h"
#include "tests/temporary_folder.h"
#include "text/build_tokenizer.h"

namespace inkling {
namespace {

class FlippedByte : public testing::Test {
 protected:
  FlippedByte() {
    TinyRun run;
    run.save(folder(), make_byte_tokenizer(true).get());
    check_checkpoint(folder());
  }

  fs::path run() const { return temporary_ / "run"; }
  fs::path folder() const { return checkpoint_folder(run(), 3); }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder())) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  // inkling-sample, inkling-eval and a resumed run notice it, as damage of that file and of nothing else.
  void expect_noticed(const std::string& name, std::uint64_t position, unsigned char bits) const {
    SCOPED_TRACE(testing::Message() << name << ", byte " << position << " by " << int{bits});
    flip(folder() / name, position, bits);
    expect_refused([&] { check_checkpoint(folder()); }, {name + ": "});
    expect_refused([&] { newest_checkpoint(run()); }, {name + ": ", "none can be used"});
    flip(folder() / name, position, bits);
  }

  TemporaryFolder temporary_;
};

TEST_F(FlippedByte, IsNoticedInEveryFileAtThreeThousandPlaces) {
  const std::vector<std::string> names = files();
  ASSERT_EQ(names, (std::vector<std::string>{"config.json", "config.yaml", "generation_config.json",
                                             "inkling_tokenizer.json", "model.safetensors", "optimizer.safetensors",
                                             "state.json", "tokenizer.json", "tokenizer_config.json"}));
  const std::uint64_t key = random_key(1, Purpose::sampling, 0);
  for (std::uint64_t index = 0; index < 3000 && !HasFailure(); ++index) {
    const std::string& name = names[index % names.size()];
    const std::uint64_t position = random_below(key, 2 * index, fs::file_size(folder() / name));
    expect_noticed(name, position, static_cast<unsigned char>(1 + random_below(key, 2 * index + 1, 255)));
  }
  EXPECT_NO_THROW(check_checkpoint(folder())) << "all flips were undone";
}

// Among them are the version, the hash of the text in the last line and the white space around it.
TEST_F(FlippedByte, IsNoticedAtEveryPlaceOfTheState) {
  const std::uint64_t size = fs::file_size(folder() / "state.json");
  for (std::uint64_t position = 0; position < size && !HasFailure(); ++position) {
    for (const int bits : {0x01, 0x02, 0x20}) {  // another digit, another version, the other case
      expect_noticed("state.json", position, static_cast<unsigned char>(bits));
    }
  }
}

}  // namespace
}  // namespace inkling
