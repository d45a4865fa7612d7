// Whatever stands in the file: it is read, or refused with an inkling::Error of kind input. Nothing else happens.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "config/config.h"

namespace inkling {
namespace {

std::vector<std::string> shipped_configs() {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(INKLING_SOURCE_DIR "/configs")) {
    std::ifstream file(entry.path());
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

// One stream of numbers for one mutated text.
class Dice {
 public:
  explicit Dice(std::uint64_t number) : key_(random_key(7, Purpose::sampling, number)) {}
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_below(key_, index_++, bound)); }

 private:
  std::uint64_t key_;
  std::uint64_t index_ = 0;
};

const std::vector<std::string> fragments{"[",     "]",
                                         "{",     "}",
                                         ": ",    ":",
                                         ",",     "- ",
                                         "? ",    "&a ",
                                         "*a",    "!!str ",
                                         "!",     "|\n",
                                         ">\n",   "\"",
                                         "'",     "#",
                                         "%",     "@",
                                         "`",     "\n",
                                         "\n\n",  "\t",
                                         "\r",    "\r\n",
                                         " ",     "  ",
                                         "---\n", "...\n",
                                         "~",     "null",
                                         "\\",    "<<: ",
                                         "0x1",   "1e999",
                                         ".nan",  "\xff",
                                         "\xc3",  "\xef\xbb\xbf",
                                         "\x04",  std::string(1, '\0'),
                                         "\\x",   "\\u12",
                                         "é",     "日",
                                         "010",   "-",
                                         "=",     "data:\n"};

std::string mutated(std::string text, Dice& dice) {
  for (std::size_t changes = 1 + dice.below(4); changes > 0; --changes) {
    const std::size_t at = dice.below(text.size() + 1);
    switch (dice.below(5)) {
      case 0:
        text.insert(at, fragments[dice.below(fragments.size())]);
        break;
      case 1:
        text.erase(at, dice.below(12));
        break;
      case 2:
        text.insert(at, text.substr(dice.below(text.size() + 1), dice.below(60)));
        break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(dice.below(256));
        break;
      default:
        if (dice.below(8) == 0) text.resize(at);
    }
  }
  return text;
}

TEST(Fuzz, MutatedConfigsAreReadOrRefused) {
  const std::vector<std::string> originals = shipped_configs();
  std::size_t read = 0, refused = 0;
  for (std::uint64_t number = 0; number < 4000; ++number) {
    Dice dice(number);
    const std::string text = mutated(originals[dice.below(originals.size())], dice);
    try {
      const Config config = parse_config(text, "run.yaml", {});
      EXPECT_EQ(print_config(parse_config(print_config(config), "again", {})), print_config(config)) << text;
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input) << text;
      EXPECT_EQ(error.message().rfind("run.yaml:", 0), 0u) << error.message();
      EXPECT_EQ(error.message().find("not valid YAML"), std::string::npos) << error.message() << "\n" << text;
      ++refused;
    }
  }
  EXPECT_GT(read, 500u);
  EXPECT_GT(refused, 500u);
}

TEST(Fuzz, SoupOfYamlIsReadOrRefused) {
  for (std::uint64_t number = 0; number < 4000; ++number) {
    Dice dice(1'000'000 + number);
    std::string text;
    for (std::size_t length = dice.below(30); length > 0; --length) text += fragments[dice.below(fragments.size())];
    try {
      parse_config(text, "run.yaml", {});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input) << text;
    }
  }
}

TEST(Fuzz, FlagsAreTakenOrRefused) {
  const std::vector<std::string> keys{
      "model.n_layer", "data.source",         "runtime.device",    "model",      "",           ".",
      "data.",         "data.tokenizer.kind", "optimizer.epsilon", "model.bias", "data..kind", "=a"};
  for (std::uint64_t number = 0; number < 4000; ++number) {
    Dice dice(2'000'000 + number);
    std::string flag = keys[dice.below(keys.size())] + (dice.below(8) == 0 ? "" : "=");
    for (std::size_t length = dice.below(6); length > 0; --length) flag += fragments[dice.below(fragments.size())];
    try {
      parse_config("data: {source: a}", "run.yaml", std::vector<std::string>{flag});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input) << flag;
    }
  }
}

}  // namespace
}  // namespace inkling
