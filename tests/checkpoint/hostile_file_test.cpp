// Small files of a checkpoint that were made to crash, to hang or to mislead what reads them: each is refused at once,
// by its name.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_weights.h"
#include "checkpoint/state_file.h"
#include "tests/checkpoint/tiny_run.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

struct SmallFile {
  std::string name;
  std::string field;  // a number in it
  std::function<void(const fs::path&)> read;
};

class HostileFile : public testing::TestWithParam<SmallFile> {
 protected:
  HostileFile() { TinyRun().save(folder()); }

  fs::path folder() const { return temporary_ / "step"; }
  fs::path file() const { return folder() / GetParam().name; }
  void expect_refusal(const std::string& mention = "") const {
    expect_refused([&] { GetParam().read(folder()); }, {GetParam().name, mention});
  }

  // The text with another value of the field, which in these files is a number.
  std::string with_value(const std::string& text, const std::string& value) const {
    const std::size_t begin = text.find(": ", text.find('"' + GetParam().field + '"')) + 2;
    return text.substr(0, begin) + value + text.substr(text.find_first_of(",\n", begin));
  }

  TemporaryFolder temporary_;
};

INSTANTIATE_TEST_SUITE_P(Files, HostileFile,
                         testing::Values(SmallFile{"state.json", "step", [](const fs::path& f) { load_state(f); }},
                                         SmallFile{"config.json", "vocab_size",
                                                   [](const fs::path& f) { read_shape(f); }}),
                         [](const auto& file) { return file.param.name.substr(0, file.param.name.find('.')); });

TEST_P(HostileFile, NestedDeepIsRefused) {
  const std::string whole = read_file(file());
  std::string objects;
  for (int level = 0; level < 100'000; ++level) objects += "{\"a\":";
  const std::string lists = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& text : {with_value(whole, lists), lists, objects + "1" + std::string(100'000, '}'),
                                  "{\"x\": " + lists + "," + whole.substr(whole.find('{') + 1)}) {
    overwrite(file(), text);
    expect_refusal("nests deeper than 64");
  }
}

TEST_P(HostileFile, ThatWouldBeReadInTwoWaysIsRefused) {
  const std::string whole = read_file(file());
  overwrite(file(), whole + std::string("\0{}", 3));
  expect_refusal("not JSON");
  overwrite(file(), "{\"" + GetParam().field + "\": 1, " + whole.substr(whole.find('{') + 1));
  expect_refusal("\"" + GetParam().field + "\" is given twice");
}

TEST_P(HostileFile, NumbersOutOfRangeAreRefused) {
  const std::string whole = read_file(file());
  for (const char* number : {"18446744073709551615", "18446744073709551616", "9223372036854775808", "-1", "1.0",
                             "1e999", "-0.5", "\"1\"", "true"}) {
    overwrite(file(), with_value(whole, number));
    expect_refusal();
  }
}

TEST_P(HostileFile, ThatIsNoRegularFileIsRefusedAtOnce) {
  fs::remove(file());
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  expect_refusal("it is a pipe");
  fs::remove(file());
  fs::create_symlink("/dev/zero", file());
  expect_refusal("it is a device");
  fs::remove(file());
  fs::create_directory(file());
  expect_refusal("Is a directory");
  fs::remove(file());
  overwrite(file(), "");
  fs::resize_file(file(), largest_small_file + 1);
  expect_refusal("it is larger than 64.0 MiB");
}

}  // namespace
}  // namespace inkling
