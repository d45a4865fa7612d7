#include "watch/run_log.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/temporary_folder.h"

namespace inkling {
namespace {

void append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

TEST(RunLog, EveryKindOfLineIsReadAndUnknownOnesArePassedOver) {
  RunLog log;
  log.add(
      R"({"step":1,"loss":7.5,"learning_rate":0.001,"grad_norm":2.5,"tokens_per_second":100.0,"seconds":0.5,"new":[1]})");
  log.add(R"({"step":2,"loss":null,"grad_norm":null})");
  log.add(R"({"step":2,"train_loss":3.5,"val_loss":3.25,"ema_val_loss":3.125,"best_possible_loss":0.75})");
  log.add(R"({"step":4,"val_loss":3.5})");
  log.add(R"({"step":4,"sample":{"prompt":"Once","text":" upon","seed":1}})");
  log.add(R"({"step":4,"event":"overfitting","since":2})");
  log.add(R"({"step":5,"something":"else"})");
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(log.steps[0].loss, 7.5);
  EXPECT_EQ(log.steps[0].learning_rate, 0.001);
  EXPECT_EQ(log.steps[0].seconds, 0.5);
  EXPECT_TRUE(std::isnan(log.steps[1].loss));
  EXPECT_TRUE(std::isnan(log.steps[1].seconds));
  ASSERT_EQ(log.evaluations.size(), 2u);
  EXPECT_EQ(log.evaluations[0].best_possible, 0.75);
  EXPECT_EQ(log.evaluations[0].of_average, 3.125);
  EXPECT_TRUE(std::isnan(log.evaluations[1].of_average));
  EXPECT_EQ(log.best_evaluation()->step, 2);
  EXPECT_EQ(log.sample->text, " upon");
  EXPECT_EQ(log.events.at(0).best_step, 2);
  EXPECT_EQ(log.last_step(), 4);
  EXPECT_FALSE(log.has_stopped_early());
  EXPECT_EQ(log.damaged, 0u);
}

TEST(RunLog, ARunThatWentOnAfterAnEarlyStopHasNotStopped) {
  RunLog log;
  log.add("{\"step\":20,\"event\":\"stopped_early\",\"best_step\":10,\"best_val_loss\":3}");
  EXPECT_TRUE(log.has_stopped_early());
  log.add("{\"step\":30,\"loss\":2}");
  EXPECT_FALSE(log.has_stopped_early());
}

TEST(RunLog, LinesThatAreNoneAreCountedAndDoNoHarm) {
  RunLog log;
  for (const char* line :
       {"{\"step\":1,\"lo", "[1]", "7", "{}", "{\"step\":-1,\"loss\":1}", "{\"step\":1e300,\"loss\":1}",
        "{\"step\":\"1\",\"loss\":1}", "\xff\xfe", "{\"step\":99999999999999999999,\"loss\":1}"}) {
    log.add(line);
  }
  EXPECT_EQ(log.damaged, 9u);
  EXPECT_TRUE(log.steps.empty());
  EXPECT_TRUE(rc::check([](const std::string& bytes) {
    RunLog any;
    any.add(bytes);
    any.add("{\"step\":1," + bytes + "}");
  }));
}

TEST(LogFollower, ALineIsReadOnceItHasItsEnd) {
  const TemporaryFolder folder;
  RunLog log;
  LogFollower follower(folder / "log.jsonl");
  EXPECT_FALSE(follower.update(log)) << "no file yet";
  append(folder / "log.jsonl", "{\"step\":1,\"loss\":4}\n{\"step\":2,");
  EXPECT_TRUE(follower.update(log));
  EXPECT_EQ(log.steps.size(), 1u);
  EXPECT_FALSE(follower.update(log)) << "nothing new";
  append(folder / "log.jsonl", "\"loss\":3}\n\n{");
  EXPECT_TRUE(follower.update(log));
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(log.steps[1].loss, 3);
  EXPECT_EQ(log.damaged, 0u);
  EXPECT_GT(follower.last_written(), 1e9);
}

TEST(LogFollower, AReplacedOrShortenedLogIsReadAnew) {
  const TemporaryFolder folder;
  const std::string first = "{\"step\":1,\"loss\":4}\n";
  folder.write("log.jsonl", first + "{\"step\":2,\"loss\":3}\n{\"step\":3,\"loss\":2}\n");
  RunLog log;
  LogFollower follower(folder / "log.jsonl");
  follower.update(log);
  ASSERT_EQ(log.last_step(), 3);
  // A resume writes a shorter file under another name and moves it here; it may have outgrown the old one by now.
  folder.write("log.jsonl",
               first + "{\"step\":2,\"loss\":3.5}\n{\"step\":3,\"loss\":2.5}\n{\"step\":4,\"loss\":2.25}\n");
  EXPECT_TRUE(follower.update(log));
  ASSERT_EQ(log.steps.size(), 4u);
  EXPECT_EQ(log.steps[1].loss, 3.5);
  std::filesystem::resize_file(folder / "log.jsonl", first.size());
  EXPECT_TRUE(follower.update(log));
  EXPECT_EQ(log.steps.size(), 1u);
  std::filesystem::remove(folder / "log.jsonl");
  EXPECT_FALSE(follower.update(log));
  EXPECT_EQ(log.steps.size(), 1u) << "what was read stays";
}

TEST(LogFollower, WhatIsNoFileIsRefused) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "log.jsonl");
  RunLog log;
  LogFollower follower(folder / "log.jsonl");
  EXPECT_TRUE(contains(input_error([&] { follower.update(log); }), "log.jsonl is not a file"));
}

}  // namespace
}  // namespace inkling
