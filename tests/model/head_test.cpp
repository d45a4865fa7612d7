// The head where all tokens are equally likely: whatever it pads the vocabulary with must not take a share.
#include <ATen/ops/zeros.h>

#include <cmath>

#include "model/operations.h"
#include "tests/oracle/tensors.h"
#include "tests/oracle/tolerances.h"

namespace inkling {
namespace {

class Head : public oracle::OnEverySetting {};

TEST_P(Head, OfEqualLogitsHasTheLogarithmOfTheVocabularyAsItsLoss) {
  for (const std::int64_t vocabulary : {64, 65, 72, 127}) {
    const at::Tensor x = at::zeros({2, 5, 24}, options()).set_requires_grad(true);
    const at::Tensor table = oracle::normal(1, {vocabulary, 24}).to(options()).set_requires_grad(true);
    const Weight weight{table, at::zeros({vocabulary, 24}, options().dtype(at::kFloat))};
    const at::Tensor targets = oracle::tokens(2, {2, 5}, vocabulary);
    const at::Tensor loss = head_loss(x, weight, targets.to(options().device()), 0.0, pass());
    const double sums = static_cast<double>(vocabulary) + oracle::function_roundings;
    const double expected_loss = std::log(static_cast<double>(vocabulary));  // of a sum of ones, in float32
    EXPECT_NEAR(loss.item<double>(), expected_loss, oracle::rounding_error(sums) * expected_loss) << vocabulary;
    loss.backward();
    // Every row pulls towards its target and away from the mean of the table.
    const at::Tensor plain = table.detach().to(at::kCPU, at::kDouble);
    const at::Tensor expected = (plain.mean(0) - plain.index_select(0, targets.flatten())) / 10.0;
    // The gradient of the logits is kept, the product with the table, and that divided by the tokens.
    const double allowed = tolerance({.sums = 2 * sums, .kept = 3});
    EXPECT_LT(oracle::error(x.grad().view({10, 24}), expected), allowed) << vocabulary;
    EXPECT_EQ(weight.gradient.abs().max().item<double>(), 0.0);
  }
}

INKLING_ON_SETTINGS_WHERE(Head, oracle::is_fused);

}  // namespace
}  // namespace inkling
