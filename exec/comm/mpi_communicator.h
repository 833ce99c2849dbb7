// A group of ranks over an MPI communicator. Only for sources of builds with MPI.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/comm/communicator.h"

namespace twin::exec {

// Every operation is made of messages between two ranks, whose completion is polled, so that every
// wait has a limit. An all-reduce gathers all ranks' arrays and sums them here: bit-stable, at the
// price of (size - 1) arrays received, which is right for the few ranks of one replica.
class MpiCommunicator final : public Communicator {
 public:
  // Keeps a duplicate of `group`. Collective over it.
  MpiCommunicator(MPI_Comm group, Duration timeout);
  // Waits until what was sent has gone, up to the limit; not where the job has failed: behind a
  // CommunicationError of a group of the family, or where an exception unwinds this object.
  ~MpiCommunicator() override;

  // The limit of later waits, here and in groups split from here later on.
  void set_timeout(Duration timeout) { timeout_ = timeout; }

  void AllReduceSum(std::span<float> values) override;
  void AllGather(std::span<const std::byte> own, std::span<std::byte> all) override;
  void Broadcast(std::span<std::byte> bytes, std::int32_t root) override;
  void Barrier() override;
  void Send(std::span<const std::byte> bytes, std::int32_t to) override;
  void Receive(std::span<std::byte> bytes, std::int32_t from, Patience patience) override;
  bool HasMessage(std::int32_t from) override;
  std::unique_ptr<Communicator> Split(std::int32_t color) override;
  void Abort(const std::string& reason) noexcept override;

 private:
  // A message on the way, whose bytes are kept until it has gone.
  struct Outgoing {
    std::vector<std::byte> bytes;
    MPI_Request request;
  };
  // Operations of different kinds never match each other's messages.
  enum class Kind : int { kMessage, kReduce, kGather, kBroadcast, kBarrier };
  struct Awaited {
    MPI_Request request;
    std::int32_t peer;
  };

  MpiCommunicator(MPI_Comm group, Duration timeout, std::shared_ptr<std::atomic<bool>> failed);

  void Try(int status, const char* operation);
  // The family is of no further use: takes back the receives, whose memory is the caller's.
  void Fail();
  void StartSend(std::span<const std::byte> bytes, std::int32_t to, Kind kind,
                 const char* operation);
  void StartReceive(std::span<std::byte> bytes, std::int32_t from, Kind kind,
                    const char* operation);
  // Until all that was started is complete.
  void AwaitAll(const char* operation, Patience patience);
  // Forgets messages that have gone; gives MPI the time to move the others.
  void Progress(const char* operation);
  void Gather(std::span<const std::byte> own, std::span<std::byte> all, Kind kind,
              const char* operation);

  MPI_Comm group_ = MPI_COMM_NULL;
  Duration timeout_;
  std::shared_ptr<std::atomic<bool>> failed_;  // shared with the groups split from here
  int exceptions_;                             // in flight when it was made
  std::vector<Awaited> awaited_;
  std::deque<Outgoing> outgoing_;
  std::vector<float> gathered_;
};

}  // namespace twin::exec
