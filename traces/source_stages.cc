#include "traces/source_stages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/hash.h"
#include "core/id_window.h"
#include "core/input_error.h"
#include "traces/field.h"

namespace twin {
namespace {

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
