// What is chosen for given measurements, with a clock that exists only as a function.
#include "recipe/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/strings.h"
#include "tests/stderr_of.h"
#include "tests/temporary_folder.h"

namespace inkling::recipe {
namespace {

// A machine whose steps take their operations at `flops_per_second`.
StepClock machine(double flops_per_second, int* measured = nullptr) {
  return [=](const Config& config, std::uint64_t, double) {
    if (measured != nullptr) ++*measured;
    const ModelConfig& model = config.model;
    const auto tokens = static_cast<double>(config.training.batch_size * model.block_size);
    const auto width = static_cast<double>(model.n_embd), layers = static_cast<double>(model.n_layer);
    const auto vocabulary = static_cast<double>(config.data.tokenizer.vocab_size);
    return 6 * tokens * (12 * layers * width * width + vocabulary * width) / flops_per_second;
  };
}

Question question_of(double training_bytes, double minutes) {
  Question question;
  question.text = {.tried_out = {.vocabulary = {.size = 512, .bytes_per_token = 2},
                                 .layers = 2,
                                 .parameters = 98304,
                                 .tokens_per_step = 1024,
                                 .steps = 900,
                                 .block_size = 128},
                   .bits = 2.15,
                   .training_bytes = training_bytes};
  question.vocabularies = {{.size = 512, .bytes_per_token = 2.0}, {.size = 1024, .bytes_per_token = 2.4}};
  question.tail_bytes = training_bytes / 9;
  question.seconds = 60 * minutes;
  question.contexts = {256};
  question.asked.data.source = {"book.txt"};
  return question;
}

TEST(Choice, IsTheSameForTheSameMeasurementsAndItsBestIsMeasured) {
  const Question question = question_of(1e6, 1);
  int measured = 0;
  const std::vector<Candidate> once = choose(question, machine(1e11, &measured));
  const std::vector<Candidate> again = choose(question, machine(1e11));
  ASSERT_EQ(once.size(), again.size());
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(print_config(settings_of(once[i], question)), print_config(settings_of(again[i], question)));
  }
  EXPECT_TRUE(once.front().is_measured);
  EXPECT_LE(measured, 12) << "each costs a second";
  for (const Candidate& candidate : once) EXPECT_GE(candidate.bits, once.front().bits);
}

// Of two measurements that lie 2 % apart, most round to the same.
TEST(Choice, MostlyStaysWhereTheMachineIsALittleFasterThanItWas) {
  const Question question = question_of(1e6, 1);
  const auto chosen = [&](double flops_per_second) {
    return print_config(settings_of(choose(question, machine(flops_per_second)).front(), question));
  };
  int same = 0;
  for (int i = 0; i < 40; ++i) {
    const double speed = 1e11 * std::pow(4.0, i / 40.0);
    if (chosen(speed) == chosen(1.02 * speed)) ++same;
  }
  EXPECT_GE(same, 30);
  const Candidate usual = choose(question, machine(1.2e11)).front();
  for (const double change : {0.97, 0.99, 1.01, 1.03}) {
    const Candidate other = choose(question, machine(1.2e11 * change)).front();
    EXPECT_LE(other.bits / usual.bits - 1, 0.02) << change;
  }
}

// The launches of a step take their time whatever they compute.
TEST(Choice, IsAmongTheBestWhereAGpusSmallStepsTakeAsLongAsLargerOnes) {
  for (const double launches : {3e-4, 1e-3, 4e-3}) {
    int measured = 0;
    const StepClock clock = [&](const Config& config, std::uint64_t vocab_size, double expected) {
      return launches + machine(1e14, &measured)(config, vocab_size, expected);
    };
    for (const double minutes : {1.0, 10.0}) {
      Question question = question_of(1e9, minutes);
      question.device = {.cuda = true};
      question.asked.runtime.device = DeviceChoice{};  // whose memory it must fit into
      measured = 0;
      const std::vector<Candidate> candidates = choose(question, clock);
      EXPECT_LE(measured, 12) << "each costs a second";
      double best = candidates.front().bits;
      for (Candidate candidate : candidates) {
        candidate.step_seconds = clock(settings_of(candidate, question), candidate.vocabulary.size, 0);
        candidate.steps = steps_within(question.seconds, candidate);
        if (candidate.steps >= 100) best = std::min(best, expected_bits(question.text, planned(candidate)));
      }
      EXPECT_LE(candidates.front().bits, 1.01 * best) << launches << ", " << minutes;
    }
  }
}

TEST(Choice, UsesMoreTimeForLargerModelsAndIsExpectedToBeBetter) {
  double bits = 100, parameters = 0;
  for (const double minutes : {0.5, 2.0, 8.0, 32.0, 128.0}) {
    const Candidate best = choose(question_of(1e9, minutes), machine(1e11)).front();
    EXPECT_LT(best.bits, bits) << minutes;
    EXPECT_GE(best.parameters(), parameters) << minutes;
    bits = best.bits;
    parameters = best.parameters();
  }
}

TEST(Choice, FitsIntoTheMemoryThatIsAllowed) {
  Question question = question_of(1e9, 1000);
  const double wanted = choose(question, machine(1e12)).front().parameters();
  question.asked.runtime.memory_limit_gib = 0.05;
  question.asked.runtime.threads = 1;
  const double allowed = choose(question, machine(1e12)).front().parameters();
  EXPECT_LT(allowed, wanted);
  EXPECT_LT(4 * 4 * allowed, 0.05 * std::pow(2.0, 30));  // weights, gradients and two moments
  question.asked.runtime.memory_limit_gib = 1e-4;
  EXPECT_THROW(choose(question, machine(1e12)), Error);
}

TEST(Choice, RefusesATimeInWhichNoModelMakesAHundredSteps) {
  try {
    choose(question_of(1e6, 1), machine(1e6));
    FAIL() << "the smallest step takes minutes";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_TRUE(contains(error.message(), "100 steps")) << error.message();
  }
}

// All that learn it are expected to come to nothing, so what is measured must not be lost among them.
TEST(Choice, OfATextOfOneCharacterIsMeasuredToo) {
  Question question = question_of(1e6, 10);
  question.text.bits = 0.0;
  const std::vector<Candidate> candidates = choose(question, machine(1e11));
  EXPECT_TRUE(candidates.front().is_measured);
  EXPECT_EQ(candidates.front().bits, candidates[1].bits) << "otherwise this test says nothing";
}

TEST(Choice, TellsTheClockWhatToExpectOfLargeSteps) {
  double largest = 0, told = 0;
  const StepClock clock = [&](const Config& config, std::uint64_t vocab_size, double expected) {
    const double seconds = machine(1e8)(config, vocab_size, 0);
    if (seconds > largest) largest = seconds, told = expected;
    return seconds;
  };
  choose(question_of(1e8, 6000), clock);
  EXPECT_GT(largest, 2);
  EXPECT_NEAR(std::log(told / largest), 0, std::log(3)) << "it follows from the smaller ones";
}

TEST(Choice, RefusesAContextThatTheTextHasNoRoomFor) {
  Question question = question_of(4000, 1);
  question.contexts = {256, 64};
  EXPECT_EQ(choose(question, machine(1e11)).front().block_size, 64);
  question.contexts = {256};
  EXPECT_THROW(choose(question, machine(1e11)), Error);
}

// What is written reads back as what was meant, reasons and all.
TEST(Choice, IsWrittenAsAConfigurationThatReadsBackTheSame) {
  const Question question = question_of(1e6, 1);
  const Config config = settings_of(choose(question, machine(1e11)).front(), question);
  const std::string yaml =
      print_config(config, {{"model.n_layer", "why: so # and so"}, {"model.dropout", "none"}, {"optimizer.name", ""}});
  EXPECT_NE(yaml.find("# why: so # and so\n"), std::string::npos);
  EXPECT_NE(yaml.find("dropout: 0  "), std::string::npos) << "a default that has a reason is shown: " << yaml;
  EXPECT_EQ(yaml.find("position: learned"), std::string::npos);
  EXPECT_EQ(print_config(parse_config(yaml, "book.yaml", {})), print_config(config));
}

TEST(Choice, SaysTheReasonOfEachLine) {
  Question question = question_of(1e6, 1);
  question.asked.runtime = {.device = DeviceChoice{}, .memory_limit_gib = 4};
  const Candidate best = choose(question, machine(1e11)).front();
  std::istringstream yaml(print_config(settings_of(best, question), reasons_for(best, question)));
  for (std::string line; std::getline(yaml, line);) {
    const bool is_heading = line.empty() || line.back() == ':';
    EXPECT_TRUE(is_heading || line.find("  # ") != std::string::npos) << line;
  }
}

// Where a text is short, what it has is learned by heart: more time does not go into weights alone.
TEST(Choice, LearnsAShortTextByCharactersWithDropoutAndFewWeights) {
  Question question = question_of(2e5, 10);
  question.vocabularies = {{.kind = TokenizerKind::character, .size = 90}};
  question.text.tried_out.vocabulary = question.vocabularies.front();
  const Candidate best = choose(question, machine(1e11)).front();
  const Config config = settings_of(best, question);
  EXPECT_EQ(config.data.tokenizer.kind, TokenizerKind::character);
  EXPECT_GT(config.model.dropout, 0.1);
  EXPECT_GT(config.optimizer.muon.weight_decay, 0.1);
  EXPECT_LT(best.parameters(), 8 * 2e5);
  EXPECT_EQ(reasons_for(best, question).count("data.tokenizer.vocab_size"), 0U);
  EXPECT_NE(outlook_of(best, question).back().find("more text would help"), std::string::npos);
}

// 30 KB in an hour would be seen thousands of times.
TEST(Choice, EndsBeforeAShortTextIsLearnedByHeart) {
  Question question = question_of(3e4, 60);
  question.vocabularies = {{.kind = TokenizerKind::character, .size = 90}};
  question.text.tried_out.vocabulary = question.vocabularies.front();
  const Candidate best = choose(question, machine(1e11)).front();
  EXPECT_LT(best.share, 0.1);
  EXPECT_LE(best.bits, question.text.bits) << "no worse than the small model, which takes a few seconds";
  EXPECT_EQ(best.steps, steps_within(question.seconds, best));
  EXPECT_NE(outlook_of(best, question).back().find("learned by heart"), std::string::npos);
}

TEST(Outlook, IsARangeAloneWhereTheTextIsLongEnough) {
  const Question question = question_of(3e7, 1);
  const std::vector<std::string> lines = outlook_of(choose(question, machine(1e11)).front(), question);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(lines[0].starts_with("expected of its tail: ")) << lines[0];
}

TEST(Outlook, IsCalledAGuessForARunFarLargerThanAnyThatWasMeasured) {
  const Question question = question_of(3e9, 10);
  const std::vector<std::string> lines = outlook_of(choose(question, machine(1e14)).front(), question);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines[1].starts_with("that is a guess: ")) << lines[1];
}

TEST(Choice, ExpectsLessOfTextThatIsSeenTooOftenByTooLargeAModel) {
  Question question = question_of(2e5, 10);
  question.text.tried_out.vocabulary = {.kind = TokenizerKind::character, .size = 90};
  const auto bits = [&](double parameters, double steps) {
    return expected_bits(question.text, {.vocabulary = question.text.tried_out.vocabulary,
                                         .layers = 4,
                                         .parameters = parameters,
                                         .tokens_per_step = 2048,
                                         .steps = steps,
                                         .block_size = 256});
  };
  EXPECT_LT(bits(8e5, 600), bits(1e5, 600));
  EXPECT_GT(bits(3e6, 6000), bits(3e5, 6000));
  EXPECT_GT(bits(3e6, 6000), bits(3e6, 1000));
}

// Going on from a model: between one and two thousand steps, of one window where there is no time for so many.
TEST(ChooseBatch, TakesTheLargestBatchThatLeavesAThousandSteps) {
  Question question = question_of(1e6, 1);
  question.asked.model.init_from = "runs/before";
  const Candidate model = {.vocabulary = {.size = 512, .bytes_per_token = 2},
                           .n_layer = 2,
                           .n_embd = 64,
                           .block_size = 256,
                           .batch_size = 1};
  const StepClock clock = [](const Config& config, std::uint64_t, double) {
    return 0.005 * static_cast<double>(config.training.batch_size);
  };
  const Candidate best = choose_batch(model, question, clock);
  EXPECT_EQ(best.batch_size, 8);
  EXPECT_GE(best.steps, 1000);
  const Config config = settings_of(best, question);
  EXPECT_EQ(config.optimizer.name, OptimizerName::adamw);
  EXPECT_EQ(config.model.n_layer, Config().model.n_layer) << "the shape is the model's";
  EXPECT_EQ(choose_batch(model, question, [](const Config&, std::uint64_t, double) { return 1.0; }).batch_size, 1);
  EXPECT_THROW(choose_batch(model, question, [](const Config&, std::uint64_t, double) { return 10.0; }), Error);
}

TEST(ChooseBatch, StaysWithTheLargestThatTheMemoryHolds) {
  Question question = question_of(1e6, 1);
  question.asked.model.init_from = "runs/before";
  const StepClock clock = [](const Config& config, std::uint64_t, double) {
    if (config.training.batch_size > 4) throw Error::environment("not enough memory");
    return 0.001;
  };
  const Candidate model = {
      .vocabulary = {.size = 512, .bytes_per_token = 2}, .n_layer = 2, .n_embd = 64, .batch_size = 1};
  EXPECT_EQ(choose_batch(model, question, clock).batch_size, 4);
  EXPECT_THROW(choose_batch(model, question,
                            [](const Config&, std::uint64_t, double) -> double {
                              throw Error::environment("not enough memory");
                            }),
               Error);
}

// Five evaluations of five batches of both splits, without backward passes, are 17 steps.
TEST(Steps, LeaveTimeForEvaluations) {
  Candidate candidate;
  candidate.step_seconds = 1;
  for (const double seconds : {27.0, 100.0, 1000.0, 10000.0}) {
    const double steps = static_cast<double>(steps_within(seconds, candidate));
    EXPECT_LE(steps + 50.0 / 3, seconds + 1) << seconds;
    EXPECT_GE(steps, 0.97 * (seconds - 50.0 / 3) - 1) << seconds;
  }
}

TEST(ChooseBatch, KeepsTheRateOfSmallModelsLow) {
  EXPECT_EQ(rate_on(32), rate_on(128));
  EXPECT_LT(rate_on(768), rate_on(128));
}

TEST(Law, TakesMoreTokensWhereTheyAreWorthMore) {
  Question question = question_of(1e7, 1);
  question.text.by_more_tokens = 0.97;
  EXPECT_EQ(choose(question, machine(1e11)).front().vocabulary.size, 512u);
  question.text.by_more_tokens = 0.85;
  EXPECT_EQ(choose(question, machine(1e11)).front().vocabulary.size, 1024u);
}

// In docs/benchmarks/recipes_*.md windows of 128 tokens instead of 256 cost 0.05 bits.
TEST(Law, ExpectsALittleMoreOfShorterContexts) {
  Hardness text = question_of(1e7, 1).text;
  for (const TokenizerKind kind : {TokenizerKind::bpe, TokenizerKind::character}) {
    text.tried_out.vocabulary.kind = kind;
    const auto bits = [&](double block_size) {
      Planned run = text.tried_out;
      run.block_size = block_size;
      return expected_bits(text, run);
    };
    EXPECT_NEAR(bits(128) - bits(256), 0.05, 0.005);
    EXPECT_EQ(bits(512), bits(256)) << "longer ones gain nothing on average";
  }
}

// A text of 160,000 characters: what three layers of 96 and four of 128 were best with, by how often they saw it.
TEST(Law, TakesDropoutByHowOftenHowManyWeightsSeeTheText) {
  Hardness text;
  text.training_bytes = 1.6e5;
  const auto dropout = [&](double layers, double width, double times) {
    return dropout_for(text, {.vocabulary = {.kind = TokenizerKind::character},
                              .layers = layers,
                              .parameters = 12 * layers * width * width,
                              .tokens_per_step = 1600,
                              .steps = 100 * times});
  };
  EXPECT_EQ(dropout(4, 128, 2), 0.0);
  EXPECT_NEAR(dropout(4, 128, 6), 0.1, 0.051);
  EXPECT_NEAR(dropout(3, 96, 13), 0.1, 0.051);
  EXPECT_NEAR(dropout(3, 96, 17), 0.2, 0.051);
  EXPECT_NEAR(dropout(4, 128, 20), 0.3, 0.051);
  EXPECT_EQ(dropout(16, 512, 1000), 0.5) << "no more than that";
  EXPECT_EQ(dropout(16, 512, 2), dropout(16, 1024, 2)) << "more weights than were tried";
  EXPECT_EQ(format_shortest(dropout(3, 96, 13)), "0.15") << "in twentieths, as people write them";
}

// A text of one character is learned at once, and nothing is below nothing.
TEST(Law, ExpectsNothingBelowZero) {
  Question question = question_of(1e6, 10);
  question.text.bits = 0.0;
  const double bits = choose(question, machine(1e11)).front().bits;
  EXPECT_GE(bits, 0.0);
  EXPECT_LT(bits, 0.001);
}

// Where there is hardly time for anything, the law thinks all worse than the small model that learned it.
TEST(Outlook, IsNotAboveBitsAtRandom) {
  Question question = question_of(3e4, 0.05);
  question.text.bits = 0.0;
  question.contexts = {32};
  const Candidate best = choose(question, machine(1e10)).front();
  EXPECT_TRUE(best.is_measured);
  EXPECT_GT(best.bits, 8.0) << "otherwise this test says nothing";
  EXPECT_NE(outlook_of(best, question).front().find("7.20 to 8.80"), std::string::npos);
}

TEST(Rounding, BringsValuesThatDifferLittleTogether) {
  EXPECT_EQ(rounded_to(0.0505, 1.1), rounded_to(0.0506, 1.1));
  for (const double value : {1e-4, 0.05, 3.0})
    EXPECT_LE(std::abs(std::log(rounded_to(value, 1.1) / value)), std::log(1.1) / 2 + 1e-12);
}

}  // namespace
}  // namespace inkling::recipe
