// Which of several processes this one is that train one model together, as whoever has started them says it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace inkling {

// A rank is one such process; rank 0 prepares, logs and writes for all.
struct RankPlace {
  int rank = 0, ranks = 1;
  int local_rank = 0, local_ranks = 1;  // among those on this machine
  std::string launcher = {};            // "torchrun", "srun" …; "": none
  std::string address = {};             // of the machine of rank 0, where ranks > 1
  std::uint16_t port = 0;               // on which the ranks find each other there
  bool has_store = false;               // the launcher has opened that port, and keeps what is told there
  std::string attempt = {};             // differs each time the launcher starts these ranks again with the same store

  bool is_alone() const { return ranks == 1; }
  // Which of a machine's GPUs is this rank's; the launcher may show it no other.
  int gpu(int gpus) const { return gpus == 1 ? 0 : local_rank; }
  // Whether the launcher may give each rank processors of its own, by the affinity mask.
  bool may_be_bound() const { return launcher == "mpirun" || launcher == "mpiexec" || launcher == "srun"; }
};

// Reads a variable: null where it is not set.
using Environment = std::function<const char*(const char* name)>;

// Reads what torchrun (RANK …), Open MPI's mpirun (OMPI_COMM_WORLD_RANK …), MPICH's and Intel's (PMI_RANK …) and srun
// (SLURM_STEP_NUM_TASKS …) tell each process, in this order; alone where none of them does. MASTER_ADDR and MASTER_PORT
// go before what a launcher other than torchrun gives. A script of sbatch is one
// process. Throws Error input naming the variable that is missing or is no such number.
RankPlace find_rank_place(const Environment& variable);
RankPlace find_rank_place();  // of this process

// The same for what a process takes of its machine; alone where the launcher's variables are not whole, because
// programs that do not train are started there too.
RankPlace find_place_on_machine();

}  // namespace inkling
