// What is named overfitting, and how often.
#include "train/evaluation.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

namespace inkling {
namespace {

// The evaluations, counted from 1, in which overfitting is said. losses: of training and validation.
std::vector<int> said(const std::vector<std::pair<double, double>>& losses) {
  TrainingState state;
  std::vector<int> when;
  for (const auto& [train_loss, val_loss] : losses) {
    ++state.step;
    note_validation_loss(state, val_loss);
    if (note_overfitting(state, train_loss, val_loss)) when.push_back(static_cast<int>(state.step));
  }
  return when;
}

TEST(Overfitting, IsSaidOnceWhenTheLossesPart) {
  EXPECT_EQ(said({{2.0, 2.0}, {1.8, 1.9}, {1.7, 1.92}, {1.6, 1.95}, {1.5, 2.0}, {1.4, 2.1}, {1.3, 2.2}}),
            std::vector{5});
}

TEST(Overfitting, IsSaidAgainOnlyAfterANewBest) {
  EXPECT_EQ(said({{2.0, 2.0}, {1.9, 2.1}, {1.8, 2.1}, {1.7, 2.1}, {1.6, 2.005}, {1.5, 2.1}, {1.4, 2.1}, {1.3, 2.1}}),
            std::vector{4});
  EXPECT_EQ(said({{2.0, 2.0}, {1.9, 2.1}, {1.8, 2.1}, {1.7, 2.1}, {1.6, 1.9}, {1.5, 2.1}, {1.4, 2.1}, {1.3, 2.1}}),
            (std::vector{4, 8}));
}

TEST(Overfitting, IsNotSaidOfNoise) {
  // The validation loss falls, and jumps up now and then.
  EXPECT_EQ(said({{2.0, 2.0}, {1.9, 2.1}, {1.8, 2.1}, {1.7, 1.99}, {1.6, 2.1}, {1.5, 2.1}, {1.4, 1.98}}),
            std::vector<int>{});
  // It stands still but for less than 0.5 %.
  EXPECT_EQ(said({{2.0, 2.0}, {1.9, 2.009}, {1.8, 2.008}, {1.7, 2.009}, {1.6, 2.0099}, {1.5, 2.001}}),
            std::vector<int>{});
  // Both rise: the model is thrown back.
  EXPECT_EQ(said({{2.0, 2.0}, {2.2, 2.2}, {2.1, 2.15}, {2.05, 2.1}, {2.01, 2.05}}), std::vector<int>{});
}

TEST(Overfitting, IsNotSaidOfLossesThatAreNotFinite) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(said({{nan, nan}, {1.9, nan}, {1.8, nan}, {1.7, nan}, {1.7, nan}}), std::vector<int>{});
  EXPECT_EQ(said({{nan, 2.0}, {1.9, 2.1}, {1.8, 2.1}, {1.7, 2.1}}), std::vector<int>{});
  EXPECT_EQ(said({{2.0, 2.0}, {1.9, 2.1}, {nan, 2.1}, {1.7, 2.1}, {1.6, nan}, {1.5, 2.1}}), std::vector<int>{});
}

}  // namespace
}  // namespace inkling
