#include "exec/comm/thread_ranks.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "core/check.h"

namespace twin::exec {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int kSpins = 4000;  // some ten microseconds

// State that a group shares with all groups split from it: an abort of one group ends the waits in
// all of them.
struct Job {
  explicit Job(Duration limit) : timeout(limit) {}

  const Duration timeout;
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> aborted{false};
  std::string reason;  // guarded by mutex
};

// The place where the ranks of one group meet, and their messages.
struct Group {
  Group(std::shared_ptr<Job> owner, std::int32_t ranks)
      : job(std::move(owner)),
        size(ranks),
        visits(static_cast<std::size_t>(ranks), 0),
        mail(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)),
        shown(static_cast<std::size_t>(ranks)),
        colors(static_cast<std::size_t>(ranks)),
        split(static_cast<std::size_t>(ranks)) {}

  struct Shown {
    void* data = nullptr;
    std::size_t count = 0;
  };

  std::shared_ptr<Job> job;
  const std::int32_t size;
  // Guarded by the job's mutex: how often each rank has come, and how many ranks are at the current
  // meeting.
  std::vector<std::uint64_t> visits;
  std::int32_t arrived = 0;
  std::int32_t given_up = -1;           // the rank that waited for too long: no rank meets any more
  std::vector<std::deque<Bytes>> mail;  // [from * size + to]
  std::atomic<std::uint64_t> meetings{0};
  // Written by each rank before a meeting, read by all ranks after it. The memory that `shown`
  // points to belongs to its rank, which keeps it until all ranks have left.
  std::vector<Shown> shown;
  std::vector<std::int32_t> colors;
  std::vector<std::shared_ptr<Group>> split;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, std::int32_t rank)
      : Communicator(rank, group->size), group_(std::move(group)) {}

  void AllReduceSum(std::span<float> values) override;
  void AllGather(std::span<const std::byte> own, std::span<std::byte> all) override;
  void Broadcast(std::span<std::byte> bytes, std::int32_t root) override;
  void Barrier() override { Meet("barrier"); }
  void Send(std::span<const std::byte> bytes, std::int32_t to) override;
  void Receive(std::span<std::byte> bytes, std::int32_t from, Patience patience) override;
  bool HasMessage(std::int32_t from) override;
  std::unique_ptr<Communicator> Split(std::int32_t color) override;
  void Abort(const std::string& reason) noexcept override;

 private:
  // Returns when all ranks have come; what they wrote before is visible then. Throws on all ranks
  // or on none.
  void Meet(const char* operation);
  // Called after a meeting. Returns when all ranks have called it. Has no limit and ignores aborts,
  // because other ranks may still read what this rank has shown, and do nothing else meanwhile.
  void Leave();
  // Counts this rank in. REQUIRES: the lock is held.
  std::uint64_t Arrive();
  [[nodiscard]] bool TookPlace(std::uint64_t meeting) const {
    return group_->meetings.load(std::memory_order_acquire) >= meeting;
  }
  [[nodiscard]] bool TakesPlaceSoon(std::uint64_t meeting) const;
  // Waits until `ready`, which is called under the lock, returns true. False if the limit has
  // passed.
  template <class Ready>
  bool AwaitLocked(std::unique_lock<std::mutex>& lock, Patience patience, const Ready& ready);
  void ThrowIfAborted(const char* operation) const;  // REQUIRES: the lock is held
  template <class T>
  void Show(std::span<T> values) {
    group_->shown[Own()] = {const_cast<std::remove_const_t<T>*>(values.data()), values.size()};
  }
  [[nodiscard]] std::size_t Own() const { return static_cast<std::size_t>(rank()); }

  std::shared_ptr<Group> group_;
};

void ThreadCommunicator::ThrowIfAborted(const char* operation) const {
  if (!group_->job->aborted.load(std::memory_order_relaxed)) return;
  throw CommunicationError(rank(), operation, "aborted: " + group_->job->reason);
}

template <class Ready>
bool ThreadCommunicator::AwaitLocked(std::unique_lock<std::mutex>& lock, Patience patience,
                                     const Ready& ready) {
  Job& job = *group_->job;
  const auto done = [&] { return job.aborted.load(std::memory_order_relaxed) || ready(); };
  if (patience == Patience::kUnbounded) {
    job.changed.wait(lock, done);
    return true;
  }
  return job.changed.wait_for(lock, job.timeout, done);
}

std::uint64_t ThreadCommunicator::Arrive() {
  Group& group = *group_;
  const std::uint64_t meeting = ++group.visits[Own()];
  if (++group.arrived == group.size) {
    group.arrived = 0;
    group.meetings.store(meeting, std::memory_order_release);
    group.job->changed.notify_all();
  }
  return meeting;
}

bool ThreadCommunicator::TakesPlaceSoon(std::uint64_t meeting) const {
  for (int i = 0; i < kSpins; ++i) {
    if (TookPlace(meeting)) return true;
    if (i % 64 == 63) std::this_thread::yield();
  }
  return false;
}

void ThreadCommunicator::Meet(const char* operation) {
  Group& group = *group_;
  Job& job = *group.job;
  std::uint64_t meeting = 0;
  {
    const std::lock_guard lock(job.mutex);
    ThrowIfAborted(operation);
    if (group.given_up >= 0) {
      throw CommunicationError(rank(), operation,
                               "rank " + std::to_string(group.given_up) + " has given up");
    }
    meeting = Arrive();
  }
  if (TakesPlaceSoon(meeting)) return;
  std::unique_lock lock(job.mutex);
  if (!AwaitLocked(lock, Patience::kBounded, [&] { return TookPlace(meeting); })) {
    const auto missing = std::find_if(group.visits.begin(), group.visits.end(),
                                      [&](std::uint64_t visits) { return visits < meeting; });
    group.given_up = rank();
    throw LateRankError(rank(), operation,
                        static_cast<std::int32_t>(missing - group.visits.begin()), job.timeout);
  }
  if (!TookPlace(meeting)) ThrowIfAborted(operation);
}

void ThreadCommunicator::Leave() {
  Job& job = *group_->job;
  std::uint64_t meeting = 0;
  {
    const std::lock_guard lock(job.mutex);
    meeting = Arrive();
  }
  if (TakesPlaceSoon(meeting)) return;
  std::unique_lock lock(job.mutex);
  job.changed.wait(lock, [&] { return TookPlace(meeting); });
}

void ThreadCommunicator::AllReduceSum(std::span<float> values) {
  Show(values);
  Meet("all-reduce");
  // Each rank sums a share of the elements and writes the sums to the arrays of all ranks.
  const std::size_t ranks = group_->shown.size();
  const std::size_t begin = values.size() * Own() / ranks;
  const std::size_t end = values.size() * (Own() + 1) / ranks;
  for (const Group::Shown& shown : group_->shown) CHECK(shown.count == values.size());
  for (std::size_t i = begin; i < end; ++i) {
    float sum = static_cast<float*>(group_->shown.front().data)[i];
    for (std::size_t r = 1; r < ranks; ++r) sum += static_cast<float*>(group_->shown[r].data)[i];
    for (const Group::Shown& shown : group_->shown) static_cast<float*>(shown.data)[i] = sum;
  }
  Leave();
}

void ThreadCommunicator::AllGather(std::span<const std::byte> own, std::span<std::byte> all) {
  CHECK(all.size() == own.size() * group_->shown.size());
  Show(own);
  Meet("all-gather");
  auto to = all.begin();
  for (const Group::Shown& shown : group_->shown) {
    CHECK(shown.count == own.size());
    to = std::copy_n(static_cast<const std::byte*>(shown.data), shown.count, to);
  }
  Leave();
}

void ThreadCommunicator::Broadcast(std::span<std::byte> bytes, std::int32_t root) {
  CHECK(root >= 0 && root < size());
  Show(bytes);
  Meet("broadcast");
  const Group::Shown& shown = group_->shown[static_cast<std::size_t>(root)];
  CHECK(shown.count == bytes.size());
  if (root != rank()) {
    std::copy_n(static_cast<const std::byte*>(shown.data), shown.count, bytes.begin());
  }
  Leave();
}

void ThreadCommunicator::Send(std::span<const std::byte> bytes, std::int32_t to) {
  CHECK(to >= 0 && to < size() && to != rank());
  Bytes copy(bytes.begin(), bytes.end());
  const std::lock_guard lock(group_->job->mutex);
  ThrowIfAborted("send");
  group_->mail[Own() * group_->shown.size() + static_cast<std::size_t>(to)].push_back(
      std::move(copy));
  group_->job->changed.notify_all();
}

void ThreadCommunicator::Receive(std::span<std::byte> bytes, std::int32_t from, Patience patience) {
  CHECK(from >= 0 && from < size() && from != rank());
  std::deque<Bytes>& mail =
      group_->mail[static_cast<std::size_t>(from) * group_->shown.size() + Own()];
  Bytes message;
  {
    std::unique_lock lock(group_->job->mutex);
    if (!AwaitLocked(lock, patience, [&] { return !mail.empty(); })) {
      throw LateRankError(rank(), "receive", from, group_->job->timeout);
    }
    ThrowIfAborted("receive");
    message = std::move(mail.front());
    mail.pop_front();
  }
  CHECK(message.size() == bytes.size());
  std::copy(message.begin(), message.end(), bytes.begin());
}

bool ThreadCommunicator::HasMessage(std::int32_t from) {
  CHECK(from >= 0 && from < size() && from != rank());
  const std::lock_guard lock(group_->job->mutex);
  ThrowIfAborted("receive");
  return !group_->mail[static_cast<std::size_t>(from) * group_->shown.size() + Own()].empty();
}

std::unique_ptr<Communicator> ThreadCommunicator::Split(std::int32_t color) {
  group_->colors[Own()] = color;
  Meet("split");
  std::int32_t first = -1;
  std::int32_t ranks = 0;
  std::int32_t place = 0;
  for (std::int32_t r = 0; r < size(); ++r) {
    if (group_->colors[static_cast<std::size_t>(r)] != color) continue;
    if (first < 0) first = r;
    if (r == rank()) place = ranks;
    ++ranks;
  }
  const auto founder = static_cast<std::size_t>(first);
  if (first == rank()) group_->split[founder] = std::make_shared<Group>(group_->job, ranks);
  Meet("split");
  const std::shared_ptr<Group> group = group_->split[founder];
  Meet("split");
  group_->split[Own()].reset();
  return std::make_unique<ThreadCommunicator>(group, place);
}

void ThreadCommunicator::Abort(const std::string& reason) noexcept {
  Job& job = *group_->job;
  const std::lock_guard lock(job.mutex);
  if (job.aborted.exchange(true)) return;
  job.reason = reason;
  job.changed.notify_all();
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeThreadGroup(std::int32_t ranks, Duration timeout) {
  CHECK(ranks >= 1);
  const auto group = std::make_shared<Group>(std::make_shared<Job>(timeout), ranks);
  std::vector<std::unique_ptr<Communicator>> ends;
  ends.reserve(static_cast<std::size_t>(ranks));
  for (std::int32_t r = 0; r < ranks; ++r) {
    ends.push_back(std::make_unique<ThreadCommunicator>(group, r));
  }
  return ends;
}

void RunThreadRanks(std::int32_t ranks, Duration timeout,
                    const std::function<void(Communicator&)>& body) {
  const std::vector<std::unique_ptr<Communicator>> ends = MakeThreadGroup(ranks, timeout);
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](Communicator& end) {
    std::exception_ptr thrown;
    std::string reason = "an unknown exception";
    try {
      body(end);
      return;
    } catch (const std::exception& error) {
      thrown = std::current_exception();
      reason = error.what();
    } catch (...) {
      thrown = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex);
      if (!first) first = thrown;
    }
    end.Abort(reason);
  };
  std::vector<std::thread> threads;
  for (std::size_t r = 1; r < ends.size(); ++r) {
    threads.emplace_back([&run, &end = *ends[r]] { run(end); });
  }
  run(*ends.front());
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

ThreadFollowers::ThreadFollowers(std::int32_t ranks, Duration timeout,
                                 std::function<void(Communicator&)> body)
    : ends_(MakeThreadGroup(ranks, timeout)),
      body_(std::move(body)),
      exceptions_(std::uncaught_exceptions()) {
  for (std::size_t r = 1; r < ends_.size(); ++r) {
    threads_.emplace_back([this, &end = *ends_[r]] {
      try {
        body_(end);
      } catch (const std::exception& error) {
        end.Abort(error.what());
      }
    });
  }
}

ThreadFollowers::~ThreadFollowers() {
  if (std::uncaught_exceptions() > exceptions_) world().Abort("rank 0 has failed");
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace twin::exec
