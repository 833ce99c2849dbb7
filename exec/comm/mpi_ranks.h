// Ranks as processes that mpirun started.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "exec/comm/communicator.h"

namespace twin::exec {

// How many ranks the launcher says that this process is one of; 1 where no launcher started it.
// Understands the environments of Open MPI, and of PMI (MPICH, Slurm). Works without MPI.
std::int32_t LaunchedRanks();
// How many of them share this machine; all of them where the launcher does not say.
std::int32_t LaunchedRanksHere();

// For commands that do not support several processes. Returns true if this process is the only one.
// If a launcher started several, rank 0 throws InputError (usage), and the others get false and
// must exit silently. Works without MPI.
bool RunsAlone(const std::string& command);

// What this program was built with, as "Open MPI 4.1.4"; empty in a build without MPI.
std::string BuiltWithMpi();

// This process as a rank of its job, from MPI_Init to MPI_Finalize: one of them in a process, made
// and destroyed by its main thread.
//
// Waits are timed by the group's limit and need no progress thread: what was sent moves on when its
// sender communicates again. Where a rank ends without having come here to the end (its process was
// killed, or an exception unwinds this object), mpirun ends the job.
class MpiRanks {
 public:
  // Throws InputError (usage) in a build without MPI, CommunicationError if MPI cannot start.
  explicit MpiRanks(Duration timeout = kRankTimeout);
  ~MpiRanks();
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  // The limit of later waits, and of groups split later on.
  void SetTimeout(Duration timeout);

  // The group of all ranks.
  [[nodiscard]] Communicator& world() { return *world_; }

 private:
  std::unique_ptr<Communicator> world_;
  int exceptions_;  // in flight when it was made
};

}  // namespace twin::exec
