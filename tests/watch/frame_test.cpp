#include "watch/frame.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/temporary_folder.h"
#include "watch/text_lines.h"

namespace inkling {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

RunView half_done() {
  RunView view{.name = "runs/fables", .state = RunState::running, .max_steps = 1000, .checkpoints = {200, 400}};
  for (std::int64_t step = 1; step <= 500; ++step) {
    const double loss = 1 + 6 / std::sqrt(static_cast<double>(step));
    view.log.steps.push_back({step, loss, 0.001, 0.5, 20000, 0.1 * static_cast<double>(step)});
    if (step % 100 == 0) view.log.evaluations.push_back({step, loss, 0.8});
  }
  view.log.sample = LoggedSample{500, "One day,", " a fox with a red harp came to a river."};
  view.last_written = 1000;
  return view;
}

std::vector<std::string> frame_of(const RunView& view, const FrameForm& form, double now = 1000) {
  std::vector<std::string> lines;
  for (const TextLine& line : make_frame(view, form, now)) lines.push_back(rendered(line, false));
  return lines;
}

std::string text_of(const RunView& view, const FrameForm& form, double now = 1000) {
  return join(frame_of(view, form, now), "\n");
}

void expect_fits(const RunView& view, const FrameForm& form) {
  const std::vector<std::string> lines = frame_of(view, form);
  ASSERT_LE(lines.size(), form.rows) << form.columns;
  for (const std::string& line : lines) {
    ASSERT_LE(columns_of(line), form.columns) << line << " in " << form.columns << " x " << form.rows;
    ASSERT_EQ(line, printable(line, form.charset));
  }
}

void expect_fits_everywhere(const RunView& view) {
  for (const std::size_t columns : {1, 2, 5, 20, 21, 40, 80, 120, 200, 500}) {
    for (const std::size_t rows : {1, 2, 3, 5, 6, 8, 10, 12, 16, 24, 60, 200}) {
      for (const Charset charset : {Charset::ascii, Charset::utf8}) {
        for (const bool live : {false, true}) expect_fits(view, {columns, rows, charset, live});
      }
    }
  }
}

TEST(Frame, NoLineIsWiderThanTheTerminalAndNoneTooMany) { expect_fits_everywhere(half_done()); }

TEST(Frame, HostileNamesAndSamplesReachNoTerminal) {
  RunView view = half_done();
  view.name = "runs/\033]0;title\a日本語 with a very long name that goes on and on 🦊🦊🦊 'and' \"quotes\"\n";
  view.state = RunState::broken;
  view.holder = "process \033[31m on \u202e host";
  std::string text(5000, 'x');
  for (int i = 0; i < 40; ++i) text += "日本語🦊\xff\xfe\u009b ";
  view.log.sample = LoggedSample{500, "\033[2J\x07", text};
  view.log.events = {{400, "overfitting", 200}, {450, "\033c new kind"}, {500, "stopped_early", 200}};
  view.log.damaged = 3;
  expect_fits_everywhere(view);
}

TEST(Frame, RunsWithHardlyAnythingAreShown) {
  RunView view{.name = "runs/x"};
  expect_fits_everywhere(view);
  view.state = RunState::running;
  EXPECT_TRUE(contains(text_of(view, {}), "running"));
  EXPECT_TRUE(contains(text_of(view, {}), "nothing logged yet"));
  view.max_steps = 0;
  view.log.steps.push_back({1, nan, nan, nan, nan, nan});
  expect_fits_everywhere(view);
  EXPECT_TRUE(contains(text_of(view, {}), "loss not finite"));
  view.log.steps.push_back({2, 1e308, 1e-308, 1e300, 1e300, 1e300});
  view.log.evaluations.push_back({INT64_MAX, -3, 0});
  expect_fits_everywhere(view);
}

TEST(Frame, NumbersAreThoseOfTheLog) {
  const std::string text = text_of(half_done(), {80, 24, Charset::utf8});
  for (const char* part :
       {"runs/fables  running", "] 50 %", "step 500/1,000", "50 s left", "50 s so far", "20,000 tokens/s",
        "loss 1.2683", "validation 1.2683 at step 500, the best", "58.5 % above the best possible 0.8000",
        "learning rate 0.001", "gradient norm 0.5", "checkpoint of step 400", "training loss", "o validation",
        "best possible", "sample at step 500:", "One day, a fox with a red harp came to a river."}) {
    EXPECT_TRUE(contains(text, part));
  }
}

TEST(Frame, ARunThatStoppedBetweenTwoLinesOfItsLogIsAsFarAsItsCheckpoint) {
  RunView view = half_done();
  view.state = RunState::stopped;
  view.checkpoints.push_back(593);
  EXPECT_TRUE(contains(text_of(view, {80, 24}), "] 59 %"));
  EXPECT_TRUE(contains(text_of(view, {80, 24}), "step 593/1,000"));
}

TEST(Frame, TimeGoesOnBetweenTwoLinesOfARunAndStandsStillAfterIt) {
  RunView view = half_done();
  EXPECT_TRUE(contains(text_of(view, {}, 1030), "20 s left"));
  EXPECT_TRUE(contains(text_of(view, {}, 1030), "1:20 so far"));
  EXPECT_TRUE(contains(text_of(view, {}, 1030), "last line 30 s ago"));
  EXPECT_TRUE(contains(text_of(view, {}, 900), "50 s left")) << "a clock that runs behind";
  view.state = RunState::stopped;
  const std::string text = text_of(view, {}, 1030);
  EXPECT_TRUE(contains(text, "50 s so far"));
  EXPECT_FALSE(contains(text, " left"));
  EXPECT_TRUE(contains(text, "go on with: inkling-train runs/fables/config.yaml --out runs/fables"));
}

TEST(Frame, TheAverageOfTheWeightsIsShownWhereThereIsOne) {
  RunView view = half_done();
  EXPECT_FALSE(contains(text_of(view, {120, 24}), "averaged weights"));
  view.log.evaluations.push_back({500, 1.25, 0.8, 1.1875});
  EXPECT_TRUE(contains(text_of(view, {120, 24}), "of averaged weights 1.1875"));
}

TEST(Frame, StatesAndEventsAreNamed) {
  RunView view = half_done();
  view.log.events = {{500, "overfitting", 200}, {500, "stopped_early", 200}};
  view.state = RunState::finished;
  EXPECT_TRUE(contains(text_of(view, {}), "finished early"));
  EXPECT_TRUE(contains(text_of(view, {}), "overfitting: the validation loss has been rising since step 200"));
  EXPECT_TRUE(contains(text_of(view, {}), "stopped early at step 500, best at step 200"));
  view.log.evaluations.push_back({600, 0.9, 0.8});
  EXPECT_FALSE(contains(text_of(view, {}), "overfitting")) << "a better one ended it";
  EXPECT_FALSE(contains(text_of(view, {}), "stopped early")) << "the run went on";
  view.state = RunState::broken;
  view.holder = "process 4711 on host";
  view.name = "runs/it's mine";
  EXPECT_TRUE(contains(text_of(view, {}), "crashed?"));
  EXPECT_TRUE(contains(text_of(view, {}), "ended without notice: process 4711 on host"));
  EXPECT_TRUE(contains(text_of(view, {200, 24}), "'runs/it'\\''s mine/config.yaml' --out 'runs/it'\\''s mine'"));
}

TEST(Frame, ColorsAreTheTerminalsOwnAndEndWithTheirPiece) {
  std::string text;
  for (const TextLine& line : make_frame(half_done(), {80, 24, Charset::utf8}, 1000))
    text += rendered(line, true) + "\n";
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find("\033[", at)) != std::string::npos; ++count) {
    const std::size_t end = text.find('m', at);
    const std::string code = text.substr(at + 2, end - at - 2);
    EXPECT_TRUE(code == "0" || code == "1" || code == "2" || code == "36" || code == "32" || code.starts_with("1;3"))
        << code;
    EXPECT_EQ(code == "0", count % 2 == 1) << "each color is reset before the next";
    at = end;
  }
  EXPECT_GT(count, 20u);
}

// Row and column of each sign in a curve's picture, behind the axis.
TEST(Curve, AFallingLossGoesFromTheUpperLeftToTheLowerRight) {
  Curve curve;
  for (std::int64_t step = 0; step <= 100; ++step)
    curve.training.push_back({step, 2 - 0.01 * static_cast<double>(step)});
  curve.validation = {{100, 1.4}};
  std::vector<std::string> lines;
  for (const TextLine& line : draw_curve(curve, {40, 12}, Charset::ascii)) lines.push_back(rendered(line, false));
  ASSERT_EQ(lines.size(), 12u);
  EXPECT_EQ(lines[0].find('.', 7), 7u) << join(lines, "\n");
  EXPECT_EQ(lines[9].rfind('.'), 39u) << join(lines, "\n");
  std::size_t before = 0;
  for (std::size_t row = 0; row < 10; ++row) {
    const std::size_t first = lines[row].find('.', 7);
    ASSERT_NE(first, std::string::npos) << join(lines, "\n");
    EXPECT_GE(first, before) << join(lines, "\n");
    before = first;
  }
  EXPECT_EQ(lines[5].size(), 40u) << join(lines, "\n");
  EXPECT_EQ(lines[5].back(), 'o') << join(lines, "\n");  // 1.4 of 1 to 2, at the last step
  EXPECT_TRUE(contains(lines[11], "0"));
  EXPECT_TRUE(lines[11].ends_with("100"));
}

TEST(Curve, FirstStepsDoNotPressTheOthersFlat) {
  Curve curve;
  for (std::int64_t step = 1; step <= 1000; ++step)
    curve.training.push_back({step, step <= 20 ? 10.0 : step <= 500 ? 1.2 : 1.1});
  std::vector<std::string> lines;
  for (const TextLine& line : draw_curve(curve, {60, 22}, Charset::ascii)) lines.push_back(rendered(line, false));
  EXPECT_TRUE(contains(lines[0], "....................")) << "the first steps and 1.2 are at the upper edge";
  EXPECT_TRUE(contains(lines[19], "....................")) << join(lines, "\n");
}

TEST(Curve, BestPossibleIsALineAcross) {
  const Curve curve{.training = {{1, 4}, {2, 3}}, .validation = {}, .best_possible = 1.0};
  const std::vector<TextLine> lines = draw_curve(curve, {30, 8}, Charset::utf8);
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(columns_of(lines[5]), 30u);
  EXPECT_TRUE(contains(rendered(lines[5], false), "╌╌╌╌╌╌╌╌╌╌"));
  EXPECT_TRUE(draw_curve(curve, {19, 8}, Charset::utf8).empty());
  EXPECT_TRUE(draw_curve({}, {80, 24}, Charset::utf8).empty());
}

TEST(Curve, AnyLossesFitAnySize) {
  EXPECT_TRUE(rc::check([] {
    Curve curve;
    const auto count = *rc::gen::inRange<std::size_t>(0, 60);
    for (std::size_t i = 0; i < count; ++i) {
      const double loss = *rc::gen::element(0.0, -1.0, 1e-300, 1e300, 1.0, 1.0000001, 2.5, nan, 1.0 / 0.0, 7.0);
      auto& points = *rc::gen::arbitrary<bool>() ? curve.training : curve.validation;
      points.push_back({*rc::gen::element<std::int64_t>(0, 1, 2, 100, 100000, INT64_MAX), loss});
    }
    if (*rc::gen::arbitrary<bool>()) curve.best_possible = *rc::gen::element(0.0, 0.5, 1.0, 1e300, nan);
    const CurveSize size{*rc::gen::inRange<std::size_t>(0, 100), *rc::gen::inRange<std::size_t>(0, 50)};
    for (const Charset charset : {Charset::ascii, Charset::utf8}) {
      const std::vector<TextLine> lines = draw_curve(curve, size, charset);
      RC_ASSERT(lines.empty() || lines.size() == size.rows);
      for (const TextLine& line : lines) RC_ASSERT(columns_of(line) <= size.columns);
    }
  }));
}

}  // namespace
}  // namespace inkling
