#include <exception>

#include "exec/comm/mpi_communicator.h"
#include "exec/comm/mpi_ranks.h"

namespace twin::exec {

std::string BuiltWithMpi() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "MPI";
  // Open MPI's text continues with the name of its packager.
  std::string name = text.substr(0, text.find_first_of(std::string_view(",\n\0", 3)));
  if (name.starts_with("Open MPI v")) name.erase(9, 1);
  return name;
}

MpiRanks::MpiRanks(Duration timeout) : exceptions_(std::uncaught_exceptions()) {
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) {
    throw CommunicationError(0, "start", "MPI_Init_thread failed");
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    throw CommunicationError(0, "start", "this MPI allows no threads beside the one that calls it");
  }
  world_ = std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, timeout);
}

void MpiRanks::SetTimeout(Duration timeout) {
  static_cast<MpiCommunicator&>(*world_).set_timeout(timeout);
}

MpiRanks::~MpiRanks() {
  // MPI_Finalize waits for the other ranks, which may wait for this rank, which has failed.
  if (std::uncaught_exceptions() > exceptions_) {
    (void)world_.release();
    return;
  }
  world_.reset();
  MPI_Finalize();
}

}  // namespace twin::exec
