// scripts/plot-loss: a well-formed picture from a log, a plain refusal where there is none.
#include <gtest/gtest.h>

#include <string>

#include "tests/program_runner.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

const std::string plot_loss = "'" INKLING_SOURCE_DIR "/scripts/plot-loss' ";

TEST(PlotLoss, WritesWellFormedSvgOfEveryKindOfLine) {
  const TemporaryFolder folder;
  folder.write("a&b/log.jsonl",
               "{\"step\":1,\"loss\":4.5}\n{\"step\":2,\"loss\":null}\n{\"step\":3,\"loss\":2.25}\n"
               "{\"step\":3,\"train_loss\":2.5,\"val_loss\":2.75,\"best_possible_loss\":2.0}\n{\"step\":4,\"lo");
  folder.write("c/log.jsonl", "{\"step\":1,\"loss\":3.5}\n");
  const std::string parse = "python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.stdin)'";
  const Outcome one = run_command(folder.path(), plot_loss + "'a&b' | tee one.svg | " + parse + " && cat one.svg");
  EXPECT_EQ(one.code, 0) << one.err;
  for (const char* part : {"<svg ", "training 2.250", "validation 2.750", "best possible 2.000", "stroke-dasharray"}) {
    EXPECT_TRUE(contains(one.out, part));
  }
  const Outcome two = run_command(folder.path(), plot_loss + "'a&b' c | tee two.svg | " + parse + " && cat two.svg");
  EXPECT_EQ(two.code, 0) << two.err;
  for (const char* part : {"a&amp;b 2.750", "c 3.500"}) EXPECT_TRUE(contains(two.out, part));
}

TEST(PlotLoss, RefusesWhatHoldsNoCurve) {
  const TemporaryFolder folder;
  folder.write("empty/log.jsonl", "");
  folder.write("other/log.jsonl", "{\"step\":1,\"loss\":3.5}\n[1]\n");
  folder.write("none/config.yaml", "");
  const auto refused = [&](const std::string& arguments, const std::string& part) {
    const Outcome outcome = run_command(folder.path(), plot_loss + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_TRUE(contains(outcome.err, part));
  };
  refused("missing", "there is no folder 'missing'");
  refused("none", "holds no log.jsonl");
  refused("empty", "no step with a finite loss");
  refused("other", "other/log.jsonl:2 is not a line");
  refused("", "usage: plot-loss");
}

}  // namespace
}  // namespace inkling
