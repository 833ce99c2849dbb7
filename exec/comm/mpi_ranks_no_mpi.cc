#include "core/input_error.h"
#include "exec/comm/mpi_ranks.h"

namespace twin::exec {

std::string BuiltWithMpi() { return {}; }

MpiRanks::MpiRanks(Duration /*timeout*/) : exceptions_(0) {
  throw InputError(InputError::Kind::kUsage, "mpirun",
                   "this program was built without MPI; install it (libopenmpi-dev) and configure "
                   "again, or run without mpirun: ranks are threads then");
}

void MpiRanks::SetTimeout(Duration /*timeout*/) {}

MpiRanks::~MpiRanks() = default;

}  // namespace twin::exec
