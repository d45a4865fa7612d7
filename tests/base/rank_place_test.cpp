#include "base/rank_place.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.h"

namespace inkling {
namespace {

using Variables = std::map<std::string, std::string>;

RankPlace place_in(const Variables& variables) {
  return find_rank_place([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal_of(const Variables& variables) {
  try {
    place_in(variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
    return error.message();
  }
  return "";
}

const Variables by_torchrun = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "one"},
                               {"MASTER_PORT", "29501"},
                               {"TORCHELASTIC_RUN_ID", "none"},
                               {"TORCHELASTIC_RESTART_COUNT", "2"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

TEST(RankPlace, IsAloneWhereNobodySaysOtherwise) {
  EXPECT_TRUE(place_in({}).is_alone());
  EXPECT_TRUE(place_in({{"RANK", "3"}}).is_alone());
  EXPECT_TRUE(place_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).is_alone());
}

TEST(RankPlace, OfTorchrunHasItsStoreAndTheNumberOfItsRestarts) {
  const RankPlace place = place_in(by_torchrun);
  EXPECT_EQ(place.rank, 5);
  EXPECT_EQ(place.ranks, 8);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_ranks, 4);
  EXPECT_EQ(place.launcher, "torchrun");
  EXPECT_EQ(place.address, "one");
  EXPECT_EQ(place.port, 29501);
  EXPECT_TRUE(place.has_store);
  EXPECT_EQ(place.attempt, "2");
}

TEST(RankPlace, OfMpirunOnOneMachineNeedsNoAddress) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  const RankPlace place = place_in(variables);
  EXPECT_EQ(place.launcher, "mpirun");
  EXPECT_EQ(place.address, "127.0.0.1");
  EXPECT_TRUE(place.may_be_bound());
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  EXPECT_EQ(refusal_of(variables),
            "MASTER_ADDR is not set, and mpirun does not say where rank 0 is; set it to the name of that machine");
  variables["MASTER_ADDR"] = "one";
  EXPECT_EQ(place_in(variables).address, "one");
}

TEST(RankPlace, OfMpiexecIsReadToo) {
  const RankPlace place = place_in({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MASTER_ADDR", "one"}});
  EXPECT_EQ(place.rank, 2);
  EXPECT_EQ(place.ranks, 4);
  EXPECT_EQ(place.launcher, "mpiexec");
}

TEST(RankPlace, OfSrunIsThatOfItsStep) {
  const Variables step = {{"SLURM_PROCID", "5"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_STEP_NUM_TASKS", "8"},
                          {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                          {"SLURM_STEP_NODELIST", "gpu[07-08,11]"},
                          {"SLURM_JOB_ID", "4711"},
                          {"SLURM_STEP_ID", "0"}};
  const RankPlace place = place_in(step);
  EXPECT_EQ(place.rank, 5);
  EXPECT_EQ(place.ranks, 8);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_ranks, 4);
  EXPECT_EQ(place.address, "gpu07");
  EXPECT_GE(place.port, 20'000);
  Variables other = step;
  EXPECT_EQ(place_in(other).port, place.port);
  other["SLURM_JOB_ID"] = "4712";
  EXPECT_NE(place_in(other).port, place.port);
  other["SLURM_STEP_NODELIST"] = "one,two";
  EXPECT_EQ(place_in(other).address, "one");
}

TEST(RankPlace, OfAScriptOfSbatchIsAlone) {
  EXPECT_TRUE(place_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "4711"}}).is_alone());
}

TEST(RankPlace, NamesTheVariableThatIsWrong) {
  Variables variables = by_torchrun;
  variables["RANK"] = "8";
  EXPECT_EQ(refusal_of(variables),
            "RANK is \"8\", and must be a whole number from 0 to 7; start the ranks by torchrun, mpirun or srun");
  variables["RANK"] = "one";
  EXPECT_NE(refusal_of(variables).find("RANK is \"one\""), std::string::npos);
  variables = by_torchrun;
  variables["MASTER_PORT"] = "70000";
  EXPECT_NE(refusal_of(variables).find("MASTER_PORT is \"70000\""), std::string::npos);
}

}  // namespace
}  // namespace inkling
