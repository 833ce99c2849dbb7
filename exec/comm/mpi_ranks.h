// Ranks that are processes started by mpirun.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "exec/comm/communicator.h"

namespace twin::exec {

// The number of ranks in the launcher's job; 1 if no launcher started this process. Understands the
// environments of Open MPI, and of PMI (MPICH, Slurm). Works without MPI.
std::int32_t LaunchedRanks();
// The number of the job's ranks on this machine; all of them if the launcher does not say.
std::int32_t LaunchedRanksHere();

// For commands that do not support several processes. Returns true if this process is the only one.
// If a launcher started several, rank 0 throws InputError (usage), and every other rank gets false
// and must exit silently. Works without MPI.
bool RunsAlone(const std::string& command);

// The MPI that this program was built with, as "Open MPI 4.1.4"; empty in a build without MPI.
std::string BuiltWithMpi();

// This process as a rank of its job, from MPI_Init to MPI_Finalize. A process has at most one such
// object, which its main thread makes and destroys.
//
// Waits have the group's limit and need no progress thread: messages move on when their sender
// communicates again. If a rank ends without having destroyed this object normally (its process was
// killed, or an exception unwinds this object), mpirun ends the job.
class MpiRanks {
 public:
  // Throws InputError (usage) in a build without MPI, CommunicationError if MPI cannot start.
  explicit MpiRanks(Duration timeout = kRankTimeout);
  ~MpiRanks();
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  // Sets the limit of later waits, and of groups that are split later.
  void SetTimeout(Duration timeout);

  // The group of all ranks.
  [[nodiscard]] Communicator& world() { return *world_; }

 private:
  std::unique_ptr<Communicator> world_;
  int exceptions_;  // in flight at construction
};

}  // namespace twin::exec
