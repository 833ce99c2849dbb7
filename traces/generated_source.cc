#include "traces/generated_source.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/id_window.h"
#include "traces/arrival_process.h"
#include "traces/field.h"

namespace twin {
namespace {

class GeneratedSource final : public ArrivalSource {
 public:
  GeneratedSource(std::unique_ptr<ConversationSource> conversations, const ArrivalConfig& arrivals,
                  bool has_sessions, std::uint64_t seed)
      : conversations_(std::move(conversations)),
        think_(arrivals.think),
        closed_(arrivals.kind == ArrivalConfig::Kind::kClosedLoop),
        reacts_(closed_ || has_sessions) {
    if (!closed_) {
      process_.emplace(arrivals, Random(seed, "arrivals"));
      next_start_ = process_->Next();
      return;
    }
    for (std::int64_t user = 0; user < arrivals.users; ++user) {
      Schedule({.time = kTimeZero + Spread(arrivals.ramp, user, arrivals.users)});
    }
  }

  const TracedRequest* Peek() override {
    while (shown_ == Shown::kNothing) {
      const std::optional<TimePoint> start = NextStart();
      const bool has_event = !events_.empty() && !events_.front().IsStart();
      if (!start && !has_event) return nullptr;
      if (has_event && (!start || events_.front().time <= *start)) {
        ShowTurn();
      } else if (!ShowStart(*start)) {
        return nullptr;
      }
    }
    return &request_;
  }

  void Take() override {
    CHECK(Peek() != nullptr);
    last_arrival_ = request_.arrival;
    if (shown_ == Shown::kStart) {
      has_start_ = false;
      closed_ ? PopEvent() : void(next_start_ = process_->Next());
    } else {
      PopEvent();
    }
    shown_ = Shown::kNothing;
    if (reacts_) outstanding_.Open(RequestId{taken_}) = conversation_;
    ++taken_;
  }

  void OnDone(RequestId id, TimePoint now, std::int32_t answer_tokens) override {
    if (!reacts_) return;
    Conversation conversation = outstanding_[id];
    outstanding_.Close(id);
    shown_ = Shown::kNothing;
    conversation.context_tokens += answer_tokens;
    if (conversation.turns_left > 0 && answer_tokens > 0) {
      const TimePoint next = After(now, conversations_->DrawThink(conversation));
      Schedule({.time = next, .conversation = conversation});
    } else if (closed_) {
      Schedule({.time = After(now, DrawDuration(think_, conversation.random))});
    }
  }
  [[nodiscard]] bool reacts() const override { return reacts_; }

 private:
  enum class Shown : std::uint8_t { kNothing, kStart, kTurn };

  // A user's next conversation (turns_left = 0) or a conversation's next turn.
  struct Event {
    TimePoint time;
    std::uint64_t order = 0;
    Conversation conversation{};

    [[nodiscard]] bool IsStart() const { return conversation.turns_left == 0; }
    static bool Later(const Event& a, const Event& b) {
      return std::pair(a.time, a.order) > std::pair(b.time, b.order);
    }
  };

  // When user k of n starts, evenly spread over a ramp.
  static Duration Spread(Duration ramp, std::int64_t user, std::int64_t users) {
    __extension__ using Wide = __int128;
    return Duration{static_cast<std::int64_t>(Wide{ramp.count()} * user / users)};
  }

  static TimePoint After(TimePoint now, Duration pause) {
    return now > TimePoint{kArrivalMax} ? kTimeNever : now + pause;
  }

  void Schedule(Event event) {
    event.order = scheduled_++;
    events_.push_back(std::move(event));
    std::push_heap(events_.begin(), events_.end(), Event::Later);
  }

  void PopEvent() {
    std::pop_heap(events_.begin(), events_.end(), Event::Later);
    events_.pop_back();
  }

  [[nodiscard]] std::optional<TimePoint> NextStart() const {
    if (ended_) return std::nullopt;
    if (!closed_) return next_start_;
    if (events_.empty() || !events_.front().IsStart()) return std::nullopt;
    return events_.front().time;
  }

  // Returns false if there are no more conversations.
  bool ShowStart(TimePoint time) {
    if (!has_start_ && !conversations_->Begin(start_)) {
      ended_ = true;
      std::erase_if(events_, [](const Event& event) { return event.IsStart(); });
      std::make_heap(events_.begin(), events_.end(), Event::Later);
      return !events_.empty();
    }
    has_start_ = true;
    conversation_ = start_;
    CHECK(conversations_->AssignTurn(conversation_, request_));
    Show(Shown::kStart, time);
    return true;
  }

  // Draws the turn of the first event from a copy, because OnDone() may add an earlier event.
  void ShowTurn() {
    conversation_ = events_.front().conversation;
    if (conversations_->AssignTurn(conversation_, request_)) {
      Show(Shown::kTurn, events_.front().time);
      return;
    }
    const TimePoint time = events_.front().time;
    PopEvent();
    if (closed_ && !ended_) Schedule({.time = time});
  }

  void Show(Shown shown, TimePoint time) {
    shown_ = shown;
    request_.arrival = std::max(time, last_arrival_);
  }

  std::unique_ptr<ConversationSource> conversations_;
  DurationDistribution think_;
  bool closed_;
  bool reacts_;
  std::optional<ArrivalProcess> process_;
  std::optional<TimePoint> next_start_;  // open loop
  std::vector<Event> events_;            // a heap by Event::Later
  std::uint64_t scheduled_ = 0;
  IdWindow<Conversation> outstanding_;  // as they are after the turn taken
  Conversation start_;                  // begun, its first turn not taken yet
  bool has_start_ = false;
  bool ended_ = false;  // no more conversations begin
  Conversation conversation_;
  TracedRequest request_;
  Shown shown_ = Shown::kNothing;
  TimePoint last_arrival_ = kTimeZero;
  std::uint32_t taken_ = 0;
};

}  // namespace

std::unique_ptr<ArrivalSource> MakeGeneratedSource(
    std::unique_ptr<ConversationSource> conversations, const ArrivalConfig& arrivals,
    bool has_sessions, std::uint64_t seed) {
  return std::make_unique<GeneratedSource>(std::move(conversations), arrivals, has_sessions, seed);
}

}  // namespace twin
