#include <cstdlib>
#include <string_view>

#include "exec/comm/mpi_ranks.h"

namespace twin::exec {

std::int32_t LaunchedRanks() {
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE"}) {
    const char* const text = std::getenv(name);
    if (text == nullptr) continue;
    const long ranks = std::strtol(text, nullptr, 10);
    if (ranks >= 1 && ranks <= 1'000'000) return static_cast<std::int32_t>(ranks);
  }
  return 1;
}

}  // namespace twin::exec
