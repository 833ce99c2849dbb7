#include "sim/world/next_arrival.h"

#include <gtest/gtest.h>

#include <deque>

namespace twin::sim {
namespace {

TimePoint At(int ms) { return kTimeZero + std::chrono::milliseconds(ms); }

// Counts the questions; requests may be pushed at any time.
class CountingSource final : public ArrivalSource {
 public:
  CountingSource(bool reacts, bool open) : is_open(open), reacts_(reacts) {}

  const TracedRequest* Peek() override {
    ++peeks;
    return queue.empty() ? nullptr : &queue.front();
  }
  void Take() override { queue.pop_front(); }
  void OnDone(RequestId /*id*/, TimePoint now, std::int32_t /*answer_tokens*/) override {
    if (reacts_) Push(now);
  }
  [[nodiscard]] bool open() const override { return is_open; }
  [[nodiscard]] bool reacts() const override { return reacts_; }

  void Push(TimePoint arrival) { queue.emplace_back().arrival = arrival; }

  int peeks = 0;
  bool is_open;
  std::deque<TracedRequest> queue;

 private:
  bool reacts_;
};

TEST(NextArrivalTest, ASourceIsAskedOncePerRequest) {
  CountingSource source(false, false);
  source.Push(At(1));
  source.Push(At(2));
  NextArrival next(source);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next.next_time(), At(1));
  next.OnDone(RequestId{0}, At(1), 1);
  EXPECT_EQ(next.Peek(), &source.queue.front());
  EXPECT_EQ(source.peeks, 1);
  next.Take();
  EXPECT_EQ(next.next_time(), At(2));
  next.Take();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next.next_time(), kTimeNever);
  EXPECT_EQ(next.Peek(), nullptr);
  EXPECT_EQ(source.peeks, 3);
}

TEST(NextArrivalTest, AnEndMakesFurtherRequestsKnown) {
  CountingSource source(true, false);
  NextArrival next(source);
  EXPECT_EQ(next.next_time(), kTimeNever);
  next.OnDone(RequestId{0}, At(7), 1);
  EXPECT_EQ(next.next_time(), At(7));
}

TEST(NextArrivalTest, OthersBringRequestsToAnOpenSource) {
  CountingSource source(false, true);
  NextArrival next(source);
  EXPECT_EQ(next.next_time(), kTimeNever);
  source.Push(At(3));
  EXPECT_EQ(next.next_time(), At(3));
  next.Take();
  EXPECT_EQ(next.next_time(), kTimeNever);
  source.Push(At(4));
  source.is_open = false;
  EXPECT_EQ(next.next_time(), At(4));
  EXPECT_EQ(next.next_time(), At(4));
}

}  // namespace
}  // namespace twin::sim
