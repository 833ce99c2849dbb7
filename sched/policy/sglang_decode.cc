// How running requests decode, and which are retracted where memory is short.
#include <algorithm>
#include <limits>
#include <tuple>

#include "core/check.h"
#include "sched/policy/sglang.h"
#include "sched/step_builder.h"

namespace twin {

void SglangPolicy::PlanDecode(StepBuilder& step) {
  const bool taken_out = TakeOutEnding(step);
  if (taken_out) full_ = false;
  if (running_.empty()) return;
  if (DecodesFit(step, running_)) {
    ratio_.Decay();
  } else if (taken_out) {
    return;
  } else {
    Retract(step);
  }
  IssueDecodes(step);
}

// A step in flight is certain to bring the last token of these: they take no further one.
bool SglangPolicy::TakeOutEnding(const StepBuilder& step) {
  if (!config_.overlap) return false;
  const std::size_t before = running_.size();
  std::erase_if(running_, [&](RequestId id) {
    const Sequence& s = step.sequence(id);
    if (s.pending == 0 || Output(s) + 1 < requests_[id].limit) return false;
    taken_out_.push_back(id);
    return true;
  });
  return running_.size() < before;
}

bool SglangPolicy::DecodesFit(StepBuilder& step, std::span<const RequestId> ids) {
  const auto most = static_cast<std::int64_t>(ids.size());
  if (most <= step.pool().free() && (windows_ == nullptr || most <= windows_->free_pages())) {
    return true;
  }
  std::int64_t pages = most;
  if (page_ > 1) {
    pages = std::count_if(ids.begin(), ids.end(),
                          [&](RequestId id) { return step.sequence(id).computed % page_ == 0; });
  }
  return MakeFree(step, pages * page_);
}

void SglangPolicy::IssueDecodes(StepBuilder& step) {
  if (windows_ != nullptr) FreeBehindDecodes(step);
  if (page_ > 1) {
    static_cast<void>(MakeFree(step, static_cast<std::int64_t>(running_.size()) * page_));
  }
  for (std::span<const RequestId> rest = running_; !rest.empty();) {
    rest = rest.subspan(step.ScheduleDecodes(rest));
    if (rest.empty()) break;
    const Sequence& s = step.sequence(rest.front());
    const std::int32_t target = s.known + s.pending;
    CHECK(step.Grow(s, target));
    step.Schedule(s, target - s.computed);
    rest = rest.subspan(1);
  }
  if (windows_ != nullptr) TakeDecodePages(step);
}

void SglangPolicy::Retract(StepBuilder& step) {
  SortForRetraction(step);
  for (bool fits = false; !fits && running_.size() > 1;) {
    const RequestId victim = running_.back();
    running_.pop_back();
    Release(step, victim, running_.size());
    Requeue(step, victim);
    fits = DecodesFit(step, running_);
  }
  // Needed only if the world lets outputs exceed their limits: otherwise one request always fits.
  // (Beside a window pool the limits do not ensure that: the last one may have to go.)
  if (windows_ == nullptr && !DecodesFit(step, running_) && chunked_) {
    const RequestId victim = *chunked_;
    chunked_.reset();
    Release(step, victim, running_.size());
    Requeue(step, victim);
  }
  if (!DecodesFit(step, running_)) {
    Abort(step, running_.back());
    running_.clear();
  }
  std::int64_t output = 0;
  std::int64_t limits = 0;
  for (const RequestId id : running_) {
    output += Output(step.sequence(id));
    limits += requests_[id].limit;
  }
  const auto left = static_cast<std::int64_t>(running_.size());
  ratio_.Retracted(output, limits, config_.retract_decode_steps * left);
  full_ = false;
}

// The last one goes first.
void SglangPolicy::SortForRetraction(const StepBuilder& step) {
  if (waiting_.ordered()) {
    std::sort(running_.begin(), running_.end(), [&](RequestId a, RequestId b) {
      return waiting_.Before(step.sequence(a), step.sequence(b));
    });
    return;
  }
  ranks_.clear();
  const bool by_priority = config_.retraction_policy == SglangConfig::Retraction::kPriority;
  for (const RequestId id : running_) {
    const Sequence& s = step.sequence(id);
    ranks_.push_back({.importance = by_priority ? -config_.Importance(s.priority) : 0,
                      .output = -Output(s),
                      .prompt = s.prompt_tokens,
                      .place = ranks_.size(),
                      .id = id});
  }
  std::sort(ranks_.begin(), ranks_.end(), [](const Rank& a, const Rank& b) {
    return std::tie(a.importance, a.output, a.prompt, a.place) <
           std::tie(b.importance, b.output, b.prompt, b.place);
  });
  for (std::size_t i = 0; i < ranks_.size(); ++i) running_[i] = ranks_[i].id;
}

std::optional<DecodeLimits> SglangPolicy::DecodeStreakLimits() const {
  if (windows_ != nullptr) return std::nullopt;  // windows move on with every token
  const bool admits = chunked_ || !arrived_.empty() || !taken_out_.empty() ||
                      !(waiting_.empty() || (full_ && !config_.preempts_by_priority()));
  const bool merges = !last_batch_.empty() || last_batch_shrank_ || running_shrank_;
  const bool releases = !ended_.empty() || !releases_.empty();
  if (admits || merges || releases || !waiting_.OrderIsFixedWhileDecoding()) return std::nullopt;
  // Below this length no request is at its limit of Enqueue() unless that is what its client asked
  // for.
  const std::int64_t shortest = std::min(LongestRequest(), cache_tokens_ - 2 * page_) - 2;
  return DecodeLimits{.computed_max = static_cast<std::int32_t>(std::clamp<std::int64_t>(
                          shortest, 0, std::numeric_limits<std::int32_t>::max())),
                      .makes_room = true,
                      .asks_each_step = true};
}

// Each decode may take a page. With as many free, PlanDecode() retracts nobody.
bool SglangPolicy::ContinueDecodeStreak(StepBuilder& step) {
  const std::int64_t tokens = static_cast<std::int64_t>(running_.size()) * page_;
  if (Available(step) < tokens) return false;
  CHECK(MakeFree(step, tokens));
  ratio_.Decay();
  gauge_.value = ratio_.value();
  CountStep(1);
  return true;
}

}  // namespace twin
