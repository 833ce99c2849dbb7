#include "exec/comm/mpi_communicator.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>
#include <limits>
#include <thread>
#include <utility>

#include "core/check.h"

namespace twin::exec {
namespace {

using SteadyClock = std::chrono::steady_clock;

// How often a wait polls before it yields its core, and when it begins to sleep. An all-reduce
// among ranks with a core each takes microseconds; an idle rank waits for seconds.
constexpr int kEagerPolls = 200;
constexpr auto kSleepAfter = std::chrono::milliseconds(5);
constexpr auto kSleep = std::chrono::microseconds(100);

constexpr std::size_t kMessageBytesMax = std::numeric_limits<int>::max();

std::int32_t RankIn(MPI_Comm group) {
  int rank = 0;
  CHECK(MPI_Comm_rank(group, &rank) == MPI_SUCCESS);
  return rank;
}

std::int32_t SizeOf(MPI_Comm group) {
  int size = 0;
  CHECK(MPI_Comm_size(group, &size) == MPI_SUCCESS);
  return size;
}

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm group, Duration timeout)
    : MpiCommunicator(group, timeout, std::make_shared<std::atomic<bool>>(false)) {}

MpiCommunicator::MpiCommunicator(MPI_Comm group, Duration timeout,
                                 std::shared_ptr<std::atomic<bool>> failed)
    : Communicator(RankIn(group), SizeOf(group)),
      timeout_(timeout),
      failed_(std::move(failed)),
      exceptions_(std::uncaught_exceptions()) {
  Try(MPI_Comm_dup(group, &group_), "start");
  Try(MPI_Comm_set_errhandler(group_, MPI_ERRORS_RETURN), "start");
}

MpiCommunicator::~MpiCommunicator() {
  const auto deadline = SteadyClock::now() + timeout_;
  const auto lost = [this] { return *failed_ || std::uncaught_exceptions() > exceptions_; };
  while (!outgoing_.empty() && !lost() && SteadyClock::now() < deadline) {
    int gone = 0;
    if (MPI_Test(&outgoing_.front().request, &gone, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
    if (gone != 0) {
      outgoing_.pop_front();
    } else {
      std::this_thread::yield();
    }
  }
  if (outgoing_.empty() && awaited_.empty() && !lost()) {
    MPI_Comm_free(&group_);
    return;
  }
  // A message that nobody will receive must not keep this rank from ending. MPI may read it until
  // then.
  static_cast<void>(new std::deque<Outgoing>(std::move(outgoing_)));
}

void MpiCommunicator::Fail() {
  *failed_ = true;
  for (Awaited& awaited : awaited_) {
    if (awaited.request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&awaited.request);
    MPI_Request_free(&awaited.request);
  }
  awaited_.clear();
}

void MpiCommunicator::Try(int status, const char* operation) {
  if (status == MPI_SUCCESS) return;
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  std::replace(text.begin(), text.end(), '\n', ' ');
  Fail();
  throw CommunicationError(rank(), operation, text);
}

void MpiCommunicator::StartSend(std::span<const std::byte> bytes, std::int32_t to, Kind kind,
                                const char* operation) {
  CHECK(bytes.size() <= kMessageBytesMax);
  awaited_.push_back({MPI_REQUEST_NULL, to});
  Try(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, static_cast<int>(kind),
                group_, &awaited_.back().request),
      operation);
}

void MpiCommunicator::StartReceive(std::span<std::byte> bytes, std::int32_t from, Kind kind,
                                   const char* operation) {
  CHECK(bytes.size() <= kMessageBytesMax);
  awaited_.push_back({MPI_REQUEST_NULL, from});
  Try(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from,
                static_cast<int>(kind), group_, &awaited_.back().request),
      operation);
}

void MpiCommunicator::Progress(const char* operation) {
  while (!outgoing_.empty()) {
    int gone = 0;
    Try(MPI_Test(&outgoing_.front().request, &gone, MPI_STATUS_IGNORE), operation);
    if (gone == 0) return;
    outgoing_.pop_front();
  }
}

void MpiCommunicator::AwaitAll(const char* operation, Patience patience) {
  const auto begin = SteadyClock::now();
  for (std::int64_t poll = 0; !awaited_.empty(); ++poll) {
    int complete = 0;
    Try(MPI_Test(&awaited_.back().request, &complete, MPI_STATUS_IGNORE), operation);
    if (complete != 0) {
      awaited_.pop_back();
      continue;
    }
    if (poll < kEagerPolls) continue;
    Progress(operation);
    const auto waited = SteadyClock::now() - begin;
    if (patience == Patience::kBounded && waited > timeout_) {
      const std::int32_t missing = awaited_.back().peer;
      Fail();
      throw LateRankError(rank(), operation, missing, timeout_);
    }
    if (waited > kSleepAfter) {
      std::this_thread::sleep_for(kSleep);
    } else {
      std::this_thread::yield();
    }
  }
}

void MpiCommunicator::Gather(std::span<const std::byte> own, std::span<std::byte> all, Kind kind,
                             const char* operation) {
  CHECK(all.size() == own.size() * static_cast<std::size_t>(size()));
  const auto place = [&](std::int32_t r) {
    return all.subspan(static_cast<std::size_t>(r) * own.size(), own.size());
  };
  for (std::int32_t r = 0; r < size(); ++r) {
    if (r != rank()) StartReceive(place(r), r, kind, operation);
  }
  for (std::int32_t r = 0; r < size(); ++r) {
    if (r != rank()) StartSend(own, r, kind, operation);
  }
  std::copy(own.begin(), own.end(), place(rank()).begin());
  AwaitAll(operation, Patience::kBounded);
}

void MpiCommunicator::AllReduceSum(std::span<float> values) {
  const std::size_t count = values.size();
  gathered_.resize(count * static_cast<std::size_t>(size()));
  Gather(std::as_bytes(values), std::as_writable_bytes(std::span(gathered_)), Kind::kReduce,
         "all-reduce");
  std::copy_n(gathered_.begin(), count, values.begin());
  for (std::int32_t r = 1; r < size(); ++r) {
    const float* const from = gathered_.data() + static_cast<std::size_t>(r) * count;
    for (std::size_t i = 0; i < count; ++i) values[i] += from[i];
  }
}

void MpiCommunicator::AllGather(std::span<const std::byte> own, std::span<std::byte> all) {
  Gather(own, all, Kind::kGather, "all-gather");
}

void MpiCommunicator::Broadcast(std::span<std::byte> bytes, std::int32_t root) {
  CHECK(root >= 0 && root < size());
  if (root != rank()) {
    StartReceive(bytes, root, Kind::kBroadcast, "broadcast");
  } else {
    for (std::int32_t r = 0; r < size(); ++r) {
      if (r != root) StartSend(bytes, r, Kind::kBroadcast, "broadcast");
    }
  }
  AwaitAll("broadcast", Patience::kBounded);
}

void MpiCommunicator::Barrier() {
  std::vector<std::byte> all(static_cast<std::size_t>(size()));
  const std::byte own{};
  Gather(std::span(&own, 1), all, Kind::kBarrier, "barrier");
}

void MpiCommunicator::Send(std::span<const std::byte> bytes, std::int32_t to) {
  CHECK(to >= 0 && to < size() && to != rank());
  CHECK(bytes.size() <= kMessageBytesMax);
  Progress("send");
  Outgoing& message = outgoing_.emplace_back(
      Outgoing{std::vector<std::byte>(bytes.begin(), bytes.end()), MPI_REQUEST_NULL});
  Try(MPI_Isend(message.bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to,
                static_cast<int>(Kind::kMessage), group_, &message.request),
      "send");
}

void MpiCommunicator::Receive(std::span<std::byte> bytes, std::int32_t from, Patience patience) {
  CHECK(from >= 0 && from < size() && from != rank());
  StartReceive(bytes, from, Kind::kMessage, "receive");
  AwaitAll("receive", patience);
}

bool MpiCommunicator::HasMessage(std::int32_t from) {
  Progress("receive");
  int there = 0;
  Try(MPI_Iprobe(from, static_cast<int>(Kind::kMessage), group_, &there, MPI_STATUS_IGNORE),
      "receive");
  return there != 0;
}

std::unique_ptr<Communicator> MpiCommunicator::Split(std::int32_t color) {
  // MPI's own split waits without a limit. After the barrier, all ranks have come.
  Barrier();
  MPI_Comm part = MPI_COMM_NULL;
  Try(MPI_Comm_split(group_, color, rank(), &part), "split");
  std::unique_ptr<MpiCommunicator> end(new MpiCommunicator(part, timeout_, failed_));
  MPI_Comm_free(&part);
  return end;
}

void MpiCommunicator::Abort(const std::string& reason) noexcept {
  std::cerr << "rank " << rank() << ": aborts: " << reason << std::endl;
  MPI_Abort(MPI_COMM_WORLD, 1);
}

}  // namespace twin::exec
