// The main() of every test program: GoogleTest's own, after a test that failed the line that repeats it, and exit code
// 3 where the processor does not have the instruction set that INKLING_INSTRUCTION_SET names. rapidcheck's properties
// are tried with twenty drawn examples, and with a hundred where INKLING_NIGHTLY is set (scripts/test --nightly).
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#if __has_include("kernels/cpu_kernels.h")
#include "base/error.h"
#include "kernels/cpu_kernels.h"
#endif

namespace {

// What of the environment decides what a test computes. rapidcheck's properties draw their numbers from a seed.
constexpr const char* deciding[] = {"RC_PARAMS", "INKLING_INSTRUCTION_SET", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA",
                                    "MKL_CBWR"};

class RepeatLine : public testing::EmptyTestEventListener {
 public:
  explicit RepeatLine(const char* program) : program_(program) {}

  void OnTestEnd(const testing::TestInfo& test) override {
    if (!test.result()->Failed()) return;
    std::cout << "repeat it with:";
    for (const char* name : deciding) {
      if (const char* const value = std::getenv(name)) std::cout << ' ' << name << "='" << value << '\'';
    }
    std::cout << ' ' << program_ << " --gtest_filter='" << test.test_suite_name() << '.' << test.name() << "'\n";
  }

 private:
  const char* program_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
#if __has_include("kernels/cpu_kernels.h")
  try {
    inkling::cpu_kernels();
  } catch (const inkling::Error& error) {
    std::cerr << error.message() << '\n';
    return static_cast<int>(error.kind());
  }
#endif
  const std::string examples = std::getenv("INKLING_NIGHTLY") ? "100" : "20";
  ::setenv("RC_PARAMS", ("seed=" + std::to_string(std::random_device()()) + " max_success=" + examples).c_str(), 0);
  testing::UnitTest::GetInstance()->listeners().Append(new RepeatLine(argv[0]));
  return RUN_ALL_TESTS();
}
