#include "base/strings.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <locale>
#include <string>
#include <vector>

namespace inkling {
namespace {

TEST(Strings, PartsAreJoined) {
  EXPECT_EQ(str("line ", 3, ": ", std::string("bad")), "line 3: bad");
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join(std::vector<std::string>{"a"}, ", "), "a");
  EXPECT_EQ(join(std::vector<std::string>{"a", "b", ""}, ", "), "a, b, ");
}

TEST(Strings, HoldTheSameNumbersInEveryLocale) {
  struct Odd : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale(), new Odd));
  const std::string text = str(2000, " ", 0.5, " ", std::uint64_t{1} << 40);
  std::locale::global(before);
  EXPECT_EQ(text, "2000 0.5 1099511627776");
}

TEST(Strings, CountsHaveACommaBeforeEveryThreeDigits) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(1003854), "1,003,854");
  EXPECT_EQ(format_count(std::numeric_limits<std::uint64_t>::max()), "18,446,744,073,709,551,615");
}

TEST(Strings, BytesNeverShowAThousandAndTwentyFourOfAUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(12897484), "12.3 MiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes((std::uint64_t{1} << 30) - 1), "1.0 GiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(Strings, DurationsRoundToWholeSecondsBeforeTheyAreSplit) {
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(12.4), "12 s");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(245), "4:05");
  EXPECT_EQ(format_duration(3599.9), "1:00:00");
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(360000), "100:00:00");
  EXPECT_EQ(format_duration(-1), "0 s");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::quiet_NaN()), "unknown");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "unknown");
}

TEST(Strings, FixedNumbersKeepTheirDecimals) {
  EXPECT_EQ(format_fixed(1.5, 2), "1.50");
  EXPECT_EQ(format_fixed(-0.05, 1), "-0.1");
  EXPECT_EQ(format_fixed(2.0, 0), "2");
  EXPECT_EQ(format_fixed(std::numeric_limits<double>::max(), 2).size(), 312U);
  EXPECT_EQ(format_fixed(std::numeric_limits<double>::lowest(), 1000).size(), 371U);
}

TEST(Strings, ShortestNumbersAreShort) {
  EXPECT_EQ(format_shortest(0.001), "0.001");
  EXPECT_EQ(format_shortest(1e-8), "1e-08");
  EXPECT_EQ(format_shortest(3), "3");
  EXPECT_EQ(format_shortest(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(format_shortest(-std::numeric_limits<double>::denorm_min()), "-5e-324");
}

TEST(Strings, ShortestNumbersReadBackAsTheSameBits) {
  EXPECT_TRUE(rc::check([](double value) {
    RC_PRE(std::isfinite(value));
    const double scaled = value * std::pow(10.0, *rc::gen::inRange(-300, 300));
    RC_ASSERT(std::strtod(format_shortest(value).c_str(), nullptr) == value);
    if (std::isfinite(scaled)) RC_ASSERT(std::strtod(format_shortest(scaled).c_str(), nullptr) == scaled);
  }));
}

TEST(Strings, ZerosInFrontFillUpAndNeverCutANumber) {
  EXPECT_EQ(padded(0, 2), "00");
  EXPECT_EQ(padded(12, 6), "000012");
  EXPECT_EQ(padded(1234567, 6), "1234567");
  EXPECT_EQ(hexadecimal(0, 2), "00");
  EXPECT_EQ(hexadecimal(0xab, 4), "00ab");
  EXPECT_EQ(hexadecimal(0x1f600, 4, Letters::upper_case), "1F600");
  EXPECT_EQ(hexadecimal(std::numeric_limits<std::uint64_t>::max(), 16), "ffffffffffffffff");
}

TEST(Strings, AWholeNumberIsDigitsAndNothingElse) {
  EXPECT_EQ(whole_number("0"), 0);
  EXPECT_EQ(whole_number("007"), 7);
  EXPECT_EQ(whole_number("ff", 16), 255);
  EXPECT_EQ(whole_number("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const char* text :
       {"", " 1", "1 ", "+1", "-1", "-0", "1.0", "0x1", "ff", "9223372036854775808", "18446744073709551616"}) {
    EXPECT_EQ(whole_number(text), std::nullopt) << text;
  }
}

TEST(NearestName, FindsSlipsOfThePen) {
  const std::vector<std::string> known = {"n_layer",       "n_head",    "n_embd", "block_size",
                                          "learning_rate", "max_steps", "bias"};
  EXPECT_EQ(nearest_name("n_layers", known), "n_layer");
  EXPECT_EQ(nearest_name("n-layer", known), "n_layer");
  EXPECT_EQ(nearest_name("N_HEAD", known), "n_head");
  EXPECT_EQ(nearest_name("n_haed", known), "n_head");
  EXPECT_EQ(nearest_name("learningrate", known), "learning_rate");
  EXPECT_EQ(nearest_name("max_iters", known), "max_steps");
  EXPECT_EQ(nearest_name("bais", known), "bias");
}

TEST(NearestName, StaysSilentWhereNothingIsNear) {
  const std::vector<std::string> known = {"n_layer", "bias", "p"};
  EXPECT_EQ(nearest_name("temperature", known), std::nullopt);
  EXPECT_EQ(nearest_name("", known), std::nullopt);
  EXPECT_EQ(nearest_name("k", known), std::nullopt);
  EXPECT_EQ(nearest_name("bias", {}), std::nullopt);
}

TEST(NearestName, TakesTheNearestAndOfEqualsTheFirst) {
  EXPECT_EQ(nearest_name("stepp", std::vector<std::string>{"stop", "step", "stepp_"}), "step");
  EXPECT_EQ(nearest_name("stepp", std::vector<std::string>{"stoop", "stepp_", "step"}), "stepp_");
}

TEST(NearestName, FindsAnyLongNameAfterAnyOneEdit) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<std::string> known = {"learning_rate", "warmup_steps", "repetition-penalty", "validation_source"};
    const std::string& name = *rc::gen::elementOf(known);
    std::string word = name;
    const std::size_t at = *rc::gen::inRange<std::size_t>(0, word.size());
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        word.erase(at, 1);
        break;
      case 1:
        word.insert(at, 1, *rc::gen::inRange('a', 'z'));
        break;
      default:
        word[at] = 'x';
    }
    RC_ASSERT(nearest_name(word, known) == name);
  }));
}

TEST(Quote, EscapesWhatATerminalWouldActOn) {
  EXPECT_EQ(quote("plain"), "\"plain\"");
  EXPECT_EQ(quote(std::string("a\"b\\c")), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(quote("tab\tline\nreturn\r"), "\"tab\\tline\\nreturn\\r\"");
  EXPECT_EQ(quote(std::string("\x1b[31m\0\x7f", 7)), "\"\\x1b[31m\\x00\\x7f\"");
  EXPECT_EQ(quote("caf\xc3\xa9"), "\"caf\xc3\xa9\"");
  EXPECT_EQ(quote("bad \xff\xe2\x82 end"), "\"bad \\xff\\xe2\\x82 end\"");
  EXPECT_EQ(quote("\xc2\x9b"
                  "31m"),
            "\"\\u009b31m\"");
}

TEST(ShellWord, ReachesAProgramAsItWas) {
  for (const std::string word :
       {"runs/a.yaml", "my run", "", "-n", "it's", "$HOME `id` \\ \"*\"", "a\nb", "caf\xc3\xa9", "~", "a;b"}) {
    FILE* const shell = ::popen(str("printf %s ", shell_word(word)).c_str(), "r");
    ASSERT_NE(shell, nullptr);
    std::string said(100, '\0');
    said.resize(std::fread(said.data(), 1, said.size(), shell));
    EXPECT_EQ(::pclose(shell), 0);
    EXPECT_EQ(said, word);
  }
  EXPECT_EQ(shell_word("runs/a.yaml"), "runs/a.yaml");
}

}  // namespace
}  // namespace inkling
