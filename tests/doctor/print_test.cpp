// What is shown: never wider than 80 columns, and the same facts as text and as JSON.
#include "doctor/doctor.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/strings.h"
#include "tests/doctor/invented_machine.h"

namespace inkling::doctor {
namespace {

// The columns of the widest line that is no command: the words of a command stay whole.
std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  std::istringstream lines(text);
  bool in_command = false;
  for (std::string line; std::getline(lines, line);) {
    in_command = in_command || line.starts_with("    $ ");
    if (!in_command) most = std::max(most, static_cast<std::size_t>(count_characters(line)));
    in_command = in_command && line.ends_with(" \\");
  }
  return most;
}

// Facts whose texts are these, wherever a machine decides them.
Facts with_texts(const std::string& text) {
  Facts facts = healthy();
  facts.system.distribution = facts.processor.model = facts.graphics.why_none = facts.graphics.driver_version = text;
  facts.disks.front().path = facts.disks.front().kind = facts.libraries.torch_folder = text;
  facts.disks.front().is_writable = false;
  facts.libraries.openmp = {text, text};
  facts.environment.variables = {{"LD_LIBRARY_PATH", text}, {"MKL_CBWR", text}};
  facts.load.programs = {{.process = 4711, .name = text, .cores = 1, .run_folder = text}};
  facts.forecasts.front().name = facts.forecasts.front().path = facts.forecasts.front().why_not = text;
  facts.forecasts.front().fits_with = text;
  facts.choices.all.front().reason = text;
  return facts;
}

// Bytes of any kind, among them what ends lines, moves cursors and begins a UTF-8 character that does not end.
rc::Gen<std::string> any_bytes() {
  return rc::gen::container<std::string>(rc::gen::oneOf(
      rc::gen::arbitrary<char>(), rc::gen::element<char>(' ', '/', 'a', '\n', '\t', '\x1b', '\xc2', '\x9b', '\xff')));
}

TEST(Text, IsNeverWiderThan80ColumnsWhateverTheMachineSays) {
  EXPECT_TRUE(rc::check([] {
    const std::string bytes = *any_bytes();
    const Facts facts = with_texts(bytes);
    const std::string text = as_text(facts, judge(facts));
    RC_ASSERT(widest(text) <= 80U);
    RC_ASSERT(!find_invalid_utf8(text));
    for (const char* control : {"\x1b", "\xc2\x9b"}) RC_ASSERT(!contains(text, control));
  }));
  const Facts facts = with_texts(std::string(500, 'x') + " " + std::string(79, 'y'));
  EXPECT_EQ(widest(as_text(facts, judge(facts))), 80U);
}

TEST(Text, SaysEachProblemWithItsCommandAndWhetherTrainingWorks) {
  Facts facts = healthy();
  EXPECT_TRUE(contains(as_text(facts, judge(facts)), "No problems were found."));
  facts.environment.locale = "C";
  const std::string warned = as_text(facts, judge(facts));
  EXPECT_TRUE(contains(warned, "    $ export LC_ALL=C.UTF-8\n"));
  EXPECT_TRUE(contains(warned, "Training works here; 1 thing could be better."));
  facts.disks.front().free = 0;
  EXPECT_TRUE(contains(as_text(facts, judge(facts)), "Training cannot work here before 1 problem marked X is solved."));
}

TEST(Text, ALongCommandCanBeCopiedBecauseItsWordsStayWhole) {
  const std::string folder = "/" + std::string(100, 'x');
  const std::string command = "inkling-train " + shell_word(folder + "/my runs/a  b.yaml") + " --resume";
  const std::string text = as_text(healthy(), {{.name = "long", .text = "It is long.", .command = command}});
  EXPECT_TRUE(contains(text, "    $ inkling-train \\\n      '" + folder + "/my runs/a  b.yaml' \\\n      --resume\n"));
}

TEST(Text, AnEstimateIsCalledOne) {
  Facts facts = healthy();
  EXPECT_TRUE(contains(as_text(facts, {}), "ESTIMATED"));
  EXPECT_FALSE(contains(as_text(facts, {}), "timed over"));
  facts.forecasts.front().measured_step = 0.045;
  facts.forecasts.front().measured_fastest = 0.04;
  facts.forecasts.front().measured_slowest = 0.05;
  facts.forecasts.front().measured_run = 180;
  facts.forecasts.front().measured_windows = 6;
  const std::string text = as_text(facts, {});
  EXPECT_TRUE(contains(text, "1.50"));
  EXPECT_TRUE(contains(text, "timed with 6 of its 12 windows"));
}

TEST(Json, HasTheFactsOfTheText) {
  Facts facts = healthy();
  facts.environment.locale = "C";
  facts.graphics.gpus = {{.name = "NVIDIA H100", .memory = 80, .free = 79, .major = 9, .minor = 0}};
  const auto json = nlohmann::json::parse(as_json(facts, judge(facts)));
  const std::string text = as_text(facts, judge(facts));
  EXPECT_EQ(json["works"], true);
  EXPECT_EQ(json["memory"]["total"], 16ULL << 30);
  EXPECT_TRUE(contains(text, "16.0 GiB"));
  for (const char* place :
       {"/processor/model", "/gpu/usable/0/name", "/disks/0/path", "/instruction_sets/in_use", "/auto/0/value",
        "/configs/0/name", "/problems/0/command", "/libraries/torch_folder", "/system/distribution"}) {
    const std::string value = json[nlohmann::json::json_pointer(place)];
    EXPECT_TRUE(contains(text, value));
  }
  EXPECT_EQ(json["gpu"]["usable"][0]["compute_capability"], "9.0");
  EXPECT_EQ(json["speed"]["products"][1]["threads"], 4);
  EXPECT_EQ(json["configs"][0]["estimated"]["step_seconds"], 0.03);
  EXPECT_EQ(json["problems"][0]["severity"], "warning");
}

TEST(Json, IsJsonWhateverTheMachineSays) {
  EXPECT_TRUE(rc::check([] {
    const Facts facts = with_texts(*any_bytes());
    RC_ASSERT(nlohmann::json::accept(as_json(facts, judge(facts))));
  }));
}

TEST(Json, SaysWhenTrainingCannotWork) {
  Facts facts = healthy();
  facts.disks.front().free = 0;
  EXPECT_EQ(nlohmann::json::parse(as_json(facts, judge(facts)))["works"], false);
  facts.speed.reset();
  EXPECT_TRUE(nlohmann::json::parse(as_json(facts, judge(facts)))["speed"].is_null());
}

}  // namespace
}  // namespace inkling::doctor
