#include "tests/kernels/on_every_instruction_set.h"

namespace inkling::test {
namespace {

class RotateLoop : public OnEveryInstructionSet {};

// Three rows, whose angles repeat after two, of two heads that turn and four more numbers.
TEST_P(RotateLoop, TurnsPairsAndBackAgainAndCopiesTheRest) {
  for (const std::int64_t half : {1, 3, 8, 17, 32}) {
    const std::int64_t size = 2 * half, stride = 2 * size + 4, rows = 3, angle_rows = 2;
    const std::vector<float> in = normal_numbers(1, rows * stride);
    const std::vector<float> angles = normal_numbers(2, angle_rows * half, 3.0);
    std::vector<float> cosines, sines, out(in.size());
    for (const float angle : angles) {
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
    std::vector<double> expected(in.begin(), in.end());
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < 2 * half; ++i) {
        const auto first = static_cast<std::size_t>(row * stride + i / half * size + i % half);
        const std::size_t second = first + static_cast<std::size_t>(half);
        const double angle = angles[static_cast<std::size_t>(row % angle_rows * half + i % half)];
        expected[first] = in[first] * std::cos(angle) - in[second] * std::sin(angle);
        expected[second] = in[second] * std::cos(angle) + in[first] * std::sin(angle);
      }
    }
    AngleTable table = {.cosines = cosines.data(), .sines = sines.data(), .rows = angle_rows};
    loops().rotate(in.data(), out.data(), table, 0, 1, stride, 2, size);
    loops().rotate(in.data(), out.data(), table, 1, 2, stride, 2, size);
    EXPECT_LT(largest_error(out, expected), rounding_error(6)) << half;
    table.sign = -1.0f;
    loops().rotate(out.data(), out.data(), table, 0, rows, stride, 2, size);
    EXPECT_LT(largest_error(out, std::vector<double>(in.begin(), in.end())), rounding_error(12)) << half;
  }
}

INKLING_ON_EVERY_INSTRUCTION_SET(RotateLoop);

}  // namespace
}  // namespace inkling::test
