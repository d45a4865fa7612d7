// --version of the programs above LibTorch.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/strings.h"
#include "kernels/cpu_kernels.h"
#include "tests/program_runner.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

TEST(Version, EveryProgramTellsItsPartsAndWhatThisMachineHas) {
  const TemporaryFolder folder;
  const std::string cuda = INKLING_BIN_DIR "/libinkling_cuda.so";
  for (const std::string program : {"inkling-train", "inkling-eval", "inkling-sample"}) {
    const Outcome outcome = run_command(folder.path(), program + " --version");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_TRUE(outcome.out.starts_with(program + " 0.")) << outcome.out;
    EXPECT_TRUE(contains(outcome.out, "\nLibTorch: 2."));
    EXPECT_TRUE(
        contains(outcome.out, "\nCUDA half: " + std::string(fs::exists(cuda) ? "" : "none, there is no ") + cuda));
    EXPECT_TRUE(contains(outcome.out, str("\ninstruction set: ", cpu_kernels().name, "\n")));
  }
}

}  // namespace
}  // namespace inkling
