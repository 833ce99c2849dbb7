// A group of ranks over an MPI communicator. Only for sources that are compiled with MPI.
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

// Every operation consists of messages between two ranks, whose completion is polled, so that every
// wait has a limit. An all-reduce gathers all ranks' arrays and sums them locally: results are
// stable to the bit, and each rank receives (size - 1) arrays, which is acceptable for the few
// ranks of one replica.
class MpiCommunicator final : public Communicator {
 public:
  // Keeps a duplicate of `group`. Collective over it.
  MpiCommunicator(MPI_Comm group, Duration timeout);
  // Waits, up to the limit, until all messages have been sent. Does not wait if the job has failed:
  // after a CommunicationError in this group or one of its family, or if an exception unwinds this
  // object.
  ~MpiCommunicator() override;

  // Sets the limit of later waits in this group and in groups that are split from it later.
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
  // A message in flight, whose bytes are kept until it has gone.
  struct Outgoing {
    std::vector<std::byte> bytes;
    MPI_Request request;
  };
  // Operations of different kinds never receive each other's messages.
  enum class Kind : int { kMessage, kReduce, kGather, kBroadcast, kBarrier };
  struct Awaited {
    MPI_Request request;
    std::int32_t peer;
  };

  MpiCommunicator(MPI_Comm group, Duration timeout, std::shared_ptr<std::atomic<bool>> failed);

  void Try(int status, const char* operation);
  // Marks the family of groups as failed. Cancels the receives, because their memory belongs to the
  // caller.
  void Fail();
  void StartSend(std::span<const std::byte> bytes, std::int32_t to, Kind kind,
                 const char* operation);
  void StartReceive(std::span<std::byte> bytes, std::int32_t from, Kind kind,
                    const char* operation);
  // Waits until all sends and receives that were started are complete.
  void AwaitAll(const char* operation, Patience patience);
  // Forgets messages that have been sent; gives MPI time to move the messages in flight.
  void Progress(const char* operation);
  void Gather(std::span<const std::byte> own, std::span<std::byte> all, Kind kind,
              const char* operation);

  MPI_Comm group_ = MPI_COMM_NULL;
  Duration timeout_;
  std::shared_ptr<std::atomic<bool>> failed_;  // shared with the groups split from this one
  int exceptions_;                             // in flight at construction
  std::vector<Awaited> awaited_;
  std::deque<Outgoing> outgoing_;
  std::vector<float> gathered_;
};

}  // namespace twin::exec
