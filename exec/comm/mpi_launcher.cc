#include <cstdlib>
#include <initializer_list>

#include "core/input_error.h"
#include "exec/comm/mpi_ranks.h"

namespace twin::exec {
namespace {

// The value of the first of these environment variables that holds a number above zero; 0 if none
// does.
std::int32_t FirstCount(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const text = std::getenv(name);
    if (text == nullptr) continue;
    const long count = std::strtol(text, nullptr, 10);
    if (count >= 1 && count <= 1'000'000) return static_cast<std::int32_t>(count);
  }
  return 0;
}

}  // namespace

std::int32_t LaunchedRanks() {
  const std::int32_t ranks = FirstCount({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  return ranks > 0 ? ranks : 1;
}

std::int32_t LaunchedRanksHere() {
  const std::int32_t ranks = FirstCount({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"});
  return ranks > 0 ? ranks : LaunchedRanks();
}

bool RunsAlone(const std::string& command) {
  const std::int32_t ranks = LaunchedRanks();
  if (ranks == 1) return true;
  if (FirstCount({"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) > 0) return false;
  throw InputError(InputError::Kind::kUsage, "mpirun",
                   "started " + std::to_string(ranks) + " ranks; " + command +
                       " is one process: allowed without mpirun");
}

}  // namespace twin::exec
