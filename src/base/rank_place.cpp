#include "base/rank_place.h"

#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/hash.h"
#include "base/strings.h"

namespace inkling {
namespace {

constexpr std::int64_t most_ranks = 65'536;
constexpr std::uint16_t default_port = 29'500;  // torchrun's

// What a launcher calls the four numbers.
struct Names {
  std::string_view launcher;
  const char *rank, *ranks, *local_rank, *local_ranks;
};

constexpr Names launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
};

std::string text_of(const Environment& variable, const char* name) {
  const char* const value = variable(name);
  return value == nullptr ? "" : value;
}

int number_of(const Environment& variable, const char* name, std::int64_t least, std::int64_t below) {
  const std::string text = text_of(variable, name);
  const auto number = whole_number(text);
  if (number && *number >= least && *number < below) return static_cast<int>(*number);
  throw Error::input(str(name, text.empty() ? " is not set" : str(" is ", quote(text)),
                         ", and must be a whole number from ", least, " to ", below - 1,
                         "; start the ranks by torchrun, mpirun or srun"));
}

// Of "node[03-07,9],other": "node03".
std::string first_host(const std::string& list) {
  const std::size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const std::size_t end = list.find_first_of("-,]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

// Of "4(x2),3", which nodes have so many tasks each, the number of the first: near enough to divide processors by.
int tasks_on_node(const std::string& list) {
  const auto number = whole_number(std::string_view(list).substr(0, list.find_first_of("(,")));
  return number && *number > 0 ? static_cast<int>(*number) : 1;
}

std::uint16_t port_of(const Environment& variable, const std::string& job) {
  const char* const name = "MASTER_PORT";
  if (!text_of(variable, name).empty()) return static_cast<std::uint16_t>(number_of(variable, name, 1, 65'536));
  // Two runs that one scheduler has put on the same machine.
  constexpr std::int64_t first = 20'000, ports = 10'000;
  if (job.empty()) return default_port;
  return static_cast<std::uint16_t>(first + whole_number(hash_text(job).substr(0, 8), 16).value() % ports);
}

std::string address_of(const Environment& variable, const RankPlace& place) {
  std::string written = text_of(variable, "MASTER_ADDR");
  if (!written.empty()) return written;
  if (const std::string nodes = text_of(variable, "SLURM_STEP_NODELIST"); place.launcher == "srun" && !nodes.empty()) {
    return first_host(nodes);
  }
  if (place.local_ranks == place.ranks) return "127.0.0.1";
  throw Error::input(str("MASTER_ADDR is not set, and ", place.launcher,
                         " does not say where rank 0 is; set it to the name of that machine"));
}

}  // namespace

RankPlace find_rank_place(const Environment& variable) {
  for (const Names& names : launchers) {
    const bool has_rank = variable(names.rank) != nullptr, has_ranks = variable(names.ranks) != nullptr;
    const bool is_srun = names.launcher == "srun";  // plain sbatch gives a rank and no SLURM_STEP_NUM_TASKS
    if (!has_rank || !has_ranks) continue;
    RankPlace place;
    place.launcher = names.launcher;
    place.ranks = number_of(variable, names.ranks, 1, most_ranks);
    place.rank = number_of(variable, names.rank, 0, place.ranks);
    if (place.is_alone()) return place;
    const bool has_local = variable(names.local_rank) != nullptr;
    if (has_local) place.local_rank = number_of(variable, names.local_rank, 0, place.ranks);
    if (is_srun) {
      place.local_ranks = tasks_on_node(text_of(variable, names.local_ranks));
    } else {
      place.local_ranks = variable(names.local_ranks) != nullptr ? number_of(variable, names.local_ranks, 1, most_ranks)
                                                                 : (has_local ? 1 : place.ranks);
    }
    const bool is_torchrun = variable("TORCHELASTIC_RUN_ID") != nullptr;
    if (names.launcher == "torchrun" && !is_torchrun) place.launcher = "RANK";
    if (is_torchrun) place.attempt = text_of(variable, "TORCHELASTIC_RESTART_COUNT");
    place.has_store = text_of(variable, "TORCHELASTIC_USE_AGENT_STORE") == "True";
    place.address = address_of(variable, place);
    const std::string step = str(text_of(variable, "SLURM_JOB_ID"), ".", text_of(variable, "SLURM_STEP_ID"));
    place.port = port_of(variable, is_srun ? step : text_of(variable, "PMIX_NAMESPACE"));
    return place;
  }
  return {};
}

RankPlace find_rank_place() {
  return find_rank_place([](const char* name) -> const char* { return std::getenv(name); });
}

RankPlace find_place_on_machine() {
  try {
    return find_rank_place();
  } catch (const Error&) {  // whoever trains is told when the ranks meet
    return {};
  }
}

}  // namespace inkling
