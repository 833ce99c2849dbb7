#include "traces/arrival_sources.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/hash.h"
#include "core/id_window.h"
#include "core/input_error.h"
#include "traces/arrival_process.h"
#include "traces/trace_limits.h"

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

  // Start time of a user: `users` of them start evenly spread over a ramp.
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
  IdWindow<Conversation> outstanding_;  // their states after the turn that was taken
  Conversation start_;                  // begun, its first turn not taken yet
  bool has_start_ = false;
  bool ended_ = false;  // no more conversations begin
  Conversation conversation_;
  TracedRequest request_;
  Shown shown_ = Shown::kNothing;
  TimePoint last_arrival_ = kTimeZero;
  std::uint32_t taken_ = 0;
};

class StreamSource final : public ArrivalSource {
 public:
  explicit StreamSource(std::unique_ptr<RequestStream> stream) : stream_(std::move(stream)) {}

  const TracedRequest* Peek() override {
    if (!shown_ && !ended_) {
      shown_ = stream_->Next(request_);
      ended_ = !shown_;
    }
    return shown_ ? &request_ : nullptr;
  }
  void Take() override {
    CHECK(Peek() != nullptr);
    shown_ = false;
  }
  void OnDone(RequestId /*id*/, TimePoint /*now*/, std::int32_t /*answer_tokens*/) override {}
  [[nodiscard]] bool reacts() const override { return false; }

 private:
  std::unique_ptr<RequestStream> stream_;
  TracedRequest request_;
  bool shown_ = false;
  bool ended_ = false;
};

class MergedSource final : public ArrivalSource {
 public:
  explicit MergedSource(std::vector<std::unique_ptr<ArrivalSource>> sources)
      : sources_(std::move(sources)), taken_(sources_.size()) {}

  const TracedRequest* Peek() override {
    const TracedRequest* first = nullptr;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const TracedRequest* next = sources_[i]->Peek();
      if (next == nullptr || (first != nullptr && next->arrival >= first->arrival)) continue;
      first = next;
      first_source_ = i;
    }
    return first;
  }

  void Take() override {
    CHECK(Peek() != nullptr);
    outstanding_.Open(RequestId{total_++}) = {first_source_, RequestId{taken_[first_source_]++}};
    sources_[first_source_]->Take();
  }

  void OnDone(RequestId id, TimePoint now, std::int32_t answer_tokens) override {
    const Origin origin = outstanding_[id];
    outstanding_.Close(id);
    sources_[origin.source]->OnDone(origin.id, now, answer_tokens);
  }
  [[nodiscard]] bool reacts() const override {
    return std::ranges::any_of(sources_, [](const auto& source) { return source->reacts(); });
  }

 private:
  struct Origin {
    std::size_t source = 0;
    RequestId id{};
  };
  std::vector<std::unique_ptr<ArrivalSource>> sources_;
  std::vector<std::uint32_t> taken_;
  std::size_t first_source_ = 0;
  std::uint32_t total_ = 0;
  IdWindow<Origin> outstanding_;
};

class LimitedSource final : public ArrivalSource {
 public:
  LimitedSource(std::unique_ptr<ArrivalSource> source, std::int64_t requests, Duration duration)
      : source_(std::move(source)), left_(requests) {
    if (requests == 0) left_ = INT64_MAX;
    if (duration != Duration::zero()) end_ = TimePoint{duration};
  }

  const TracedRequest* Peek() override {
    if (left_ == 0) return nullptr;
    const TracedRequest* next = source_->Peek();
    if (next == nullptr || (end_ && next->arrival >= *end_)) return nullptr;
    if (next->arrival > TimePoint{kArrivalMax}) {
      throw InputError(
          InputError::Kind::kUsage, "workload",
          "arrivals pass 126 years; allowed: a higher rate, fewer requests, steps that "
          "take less time, or a duration");
    }
    return next;
  }
  void Take() override {
    CHECK(left_ > 0);
    --left_;
    source_->Take();
  }
  void OnDone(RequestId id, TimePoint now, std::int32_t answer_tokens) override {
    source_->OnDone(id, now, answer_tokens);
  }
  [[nodiscard]] bool reacts() const override { return source_->reacts(); }

 private:
  std::unique_ptr<ArrivalSource> source_;
  std::int64_t left_;
  std::optional<TimePoint> end_;
};

class CappedSource final : public ArrivalSource {
 public:
  CappedSource(std::unique_ptr<ArrivalSource> source, std::int32_t in_flight_max)
      : source_(std::move(source)), in_flight_max_(in_flight_max) {
    CHECK(in_flight_max >= 1);
  }

  const TracedRequest* Peek() override {
    if (in_flight_ == in_flight_max_) return nullptr;
    if (shown_) return &request_;
    const TracedRequest* next = source_->Peek();
    if (next == nullptr) return nullptr;
    request_ = *next;
    request_.arrival = std::max(request_.arrival, freed_);
    request_.client_wait = request_.arrival - next->arrival;
    shown_ = true;
    return &request_;
  }
  void Take() override {
    CHECK(Peek() != nullptr);
    source_->Take();
    shown_ = false;
    ++in_flight_;
  }
  void OnDone(RequestId id, TimePoint now, std::int32_t answer_tokens) override {
    CHECK(in_flight_ > 0);
    // Only a request that waited for a place is delayed.
    if (in_flight_ == in_flight_max_) freed_ = std::max(freed_, now);
    --in_flight_;
    source_->OnDone(id, now, answer_tokens);
    shown_ = false;
  }

 private:
  std::unique_ptr<ArrivalSource> source_;
  std::int32_t in_flight_max_;
  std::int32_t in_flight_ = 0;
  TimePoint freed_ = kTimeZero;
  TracedRequest request_;
  bool shown_ = false;
};

class CycledPrompts final : public ArrivalSource {
 public:
  CycledPrompts(std::unique_ptr<ArrivalSource> source, std::int32_t prompts)
      : source_(std::move(source)), prompts_(static_cast<std::uint64_t>(prompts)) {
    CHECK(prompts >= 1);
  }

  const TracedRequest* Peek() override {
    const TracedRequest* next = source_->Peek();
    if (next == nullptr) return nullptr;
    request_ = *next;
    request_.prefix_chunk_tokens = kChunkTokens;
    request_.prefix_chunks.clear();
    const std::uint64_t prompt = MixWords(taken_ % prompts_, kPoolSalt);
    const auto chunks =
        static_cast<std::uint64_t>((request_.prompt_tokens + kChunkTokens - 1) / kChunkTokens);
    for (std::uint64_t i = 0; i < chunks; ++i) {
      request_.prefix_chunks.push_back(MixWords(prompt, i));
    }
    return &request_;
  }
  void Take() override {
    ++taken_;
    source_->Take();
  }
  void OnDone(RequestId id, TimePoint now, std::int32_t answer_tokens) override {
    source_->OnDone(id, now, answer_tokens);
  }
  [[nodiscard]] bool reacts() const override { return source_->reacts(); }

 private:
  static constexpr std::int32_t kChunkTokens = 16;
  static constexpr std::uint64_t kPoolSalt = 0x9e3779b97f4a7c15;

  std::unique_ptr<ArrivalSource> source_;
  std::uint64_t prompts_;
  std::uint64_t taken_ = 0;
  TracedRequest request_;
};

}  // namespace

std::unique_ptr<ArrivalSource> MakeGeneratedSource(
    std::unique_ptr<ConversationSource> conversations, const ArrivalConfig& arrivals,
    bool has_sessions, std::uint64_t seed) {
  return std::make_unique<GeneratedSource>(std::move(conversations), arrivals, has_sessions, seed);
}

std::unique_ptr<ArrivalSource> StreamArrivals(std::unique_ptr<RequestStream> stream) {
  return std::make_unique<StreamSource>(std::move(stream));
}

std::unique_ptr<ArrivalSource> MergeArrivals(std::vector<std::unique_ptr<ArrivalSource>> sources) {
  return std::make_unique<MergedSource>(std::move(sources));
}

std::unique_ptr<ArrivalSource> LimitArrivals(std::unique_ptr<ArrivalSource> source,
                                             std::int64_t requests, Duration duration) {
  return std::make_unique<LimitedSource>(std::move(source), requests, duration);
}

std::unique_ptr<ArrivalSource> CapInFlight(std::unique_ptr<ArrivalSource> source,
                                           std::int32_t in_flight_max) {
  return std::make_unique<CappedSource>(std::move(source), in_flight_max);
}

std::unique_ptr<ArrivalSource> CyclePrompts(std::unique_ptr<ArrivalSource> source,
                                            std::int32_t prompts) {
  return std::make_unique<CycledPrompts>(std::move(source), prompts);
}

}  // namespace twin
