// Communication between the ranks of one replica: collectives and messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "core/time.h"

namespace twin::exec {

// A rank failed, ended, or timed out. The message is one line: "rank 1: all-reduce: ...". The group
// cannot be used any more.
class CommunicationError : public std::runtime_error {
 public:
  CommunicationError(std::int32_t rank, const std::string& operation, const std::string& what)
      : std::runtime_error("rank " + std::to_string(rank) + ": " + operation + ": " + what) {}
};

// The error for a rank `missing` that kept `rank` waiting for longer than `limit`.
CommunicationError LateRankError(std::int32_t rank, const std::string& operation,
                                 std::int32_t missing, Duration limit);

// How long a wait may take: up to the group's limit, or for ever (idle ranks that wait for work).
// An abort of the group ends both kinds of waits.
enum class Patience : std::uint8_t { kBounded, kUnbounded };

constexpr Duration kRankTimeout = std::chrono::seconds(60);

// One rank's end of a group of ranks. Every rank of the group calls the collectives (all functions
// but Send, Receive and Abort) in the same order and with equal sizes.
//
// Memory    Host memory here. An implementation for CUDA takes device memory, is made for one
//           stream, in whose order its calls take place, and adds overloads of AllReduceSum for
//           16-bit formats; callers wait on that stream.
// Order     Sums run in ascending order of ranks, so that equal inputs give equal bits, on every
//           rank and in every implementation for the host.
// Threads   One caller at a time for each end; Abort may be called from anywhere.
// Throws    CommunicationError, from every call but Abort: at once after an abort, and when another
//           rank makes this one wait for longer than the group's limit.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] std::int32_t rank() const { return rank_; }
  [[nodiscard]] std::int32_t size() const { return size_; }

  // Sets values[i] to the sum of all ranks' values[i].
  virtual void AllReduceSum(std::span<float> values) = 0;
  // Sets `all` to the `own` of rank 0, then of rank 1, and so on. REQUIRES: all.size() == size() *
  // own.size().
  virtual void AllGather(std::span<const std::byte> own, std::span<std::byte> all) = 0;
  // Copies the `bytes` of `root` to all ranks.
  virtual void Broadcast(std::span<std::byte> bytes, std::int32_t root) = 0;
  // Returns when all ranks have called it.
  virtual void Barrier() = 0;

  // Messages between two ranks arrive in the order of sending. Send() copies and does not wait for
  // the receiver. REQUIRES: `bytes` have the same size at both ends; the other end is another rank.
  virtual void Send(std::span<const std::byte> bytes, std::int32_t to) = 0;
  virtual void Receive(std::span<std::byte> bytes, std::int32_t from, Patience patience) = 0;

  // True if Receive from that rank would return without waiting.
  virtual bool HasMessage(std::int32_t from) = 0;

  // Makes one group of the ranks that call with the same colour, ranked as in this one. It may
  // outlive this one. Collective.
  virtual std::unique_ptr<Communicator> Split(std::int32_t color) = 0;

  // Ends the work of this group, of all groups that were split from it, and of the group that it
  // was split from: calls that wait in one of them, and all later calls, throw with this reason.
  // Kills the processes of an MPI job.
  virtual void Abort(const std::string& reason) noexcept = 0;

 protected:
  Communicator(std::int32_t rank, std::int32_t size) : rank_(rank), size_(size) {}

 private:
  std::int32_t rank_;
  std::int32_t size_;
};

}  // namespace twin::exec
