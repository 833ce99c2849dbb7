#include "apps/python/policy_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>

#include "run/record/run_listener.h"

namespace twin::python {
namespace {

namespace nb = nanobind;

[[noreturn]] void Refuse(const std::string& what) { throw nb::value_error(what.c_str()); }

// Tokens or requests left of a limit of the step; limit 0 = no limit.
std::int64_t Remaining(std::int32_t limit, std::int64_t used) {
  return limit == 0 ? std::numeric_limits<std::int32_t>::max() : limit - used;
}

// The reason with this word, as in the column reject_reason.
RejectReason ReasonOf(std::string_view word) {
  const auto found = std::ranges::find(kRejectReasonNames, word);
  if (found == kRejectReasonNames.end()) {
    Refuse(fmt::format("reject: reason is \"{}\"; allowed: {}", word,
                       fmt::join(kRejectReasonNames, ", ")));
  }
  return static_cast<RejectReason>(found - kRejectReasonNames.begin());
}

}  // namespace

const char* StateName(SequenceState state) {
  constexpr const char* kNames[] = {"waiting", "running", "swapped", "finished"};
  return kNames[static_cast<std::size_t>(state)];
}

StepBuilder& PolicyStep::builder() const {
  if (scope_->step == nullptr) Refuse("a step can be used in plan() only");
  return *scope_->step;
}

const Sequence& PolicyStep::SequenceOf(const PolicyRequest& request) const {
  if (request.scope != scope_) {
    Refuse(fmt::format("request {} belongs to another run", Index(request.id)));
  }
  return request.sequence();
}

const Sequence& PolicyStep::Require(const PolicyRequest& request, SequenceState state,
                                    const char* what) const {
  const Sequence& sequence = SequenceOf(request);
  if (sequence.state != state) {
    Refuse(fmt::format("{}: request {} is {}; allowed: {}", what, Index(request.id),
                       StateName(sequence.state), StateName(state)));
  }
  return sequence;
}

void PolicyStep::Notify(const char* method, nb::handle request) const {
  scope_->policy.attr(method)(request);
}

std::int64_t PolicyStep::tokens_left() const {
  const StepTotals& totals = builder().plan().totals;
  return Remaining(scope_->traits.tokens_per_step_max, totals.prefill_tokens + totals.decode_items);
}

std::int64_t PolicyStep::sequences_left() const {
  return Remaining(scope_->traits.sequences_per_step_max,
                   static_cast<std::int64_t>(builder().plan().work.size()));
}

void PolicyStep::Admit(nb::handle_t<PolicyRequest> request) {
  const auto& native = nb::cast<const PolicyRequest&>(request);
  Require(native, SequenceState::kWaiting, "admit");
  builder().Admit(native.id);
  Notify("admitted", request);
}

bool PolicyStep::Grow(const PolicyRequest& request, std::int32_t tokens) {
  return builder().Grow(Require(request, SequenceState::kRunning, "grow"), tokens);
}

bool PolicyStep::Reserve(const PolicyRequest& request, std::int32_t blocks) {
  Require(request, SequenceState::kRunning, "reserve");
  if (blocks < 0) Refuse(fmt::format("reserve: {} blocks; allowed: from 0", blocks));
  return builder().Reserve(request.id, blocks);
}

void PolicyStep::Schedule(const PolicyRequest& request, std::int32_t tokens,
                          std::int32_t padded_tokens) {
  const Sequence& sequence = Require(request, SequenceState::kRunning, "schedule");
  const std::int32_t left = sequence.left();
  if (tokens < 1 || tokens > left) {
    Refuse(
        fmt::format("schedule: tokens is {}; allowed: 1 to the {} tokens that request {} has "
                    "left to compute",
                    tokens, left, Index(request.id)));
  }
  if (padded_tokens != 0 && padded_tokens < tokens) {
    Refuse(fmt::format("schedule: padded_tokens is {}; allowed: 0, or at least tokens ({})",
                       padded_tokens, tokens));
  }
  builder().Schedule(sequence, tokens, padded_tokens);
}

std::int64_t PolicyStep::ScheduleDecodes(const nb::list& requests, std::int64_t from) {
  const auto size = static_cast<std::int64_t>(requests.size());
  if (from < 0 || from > size) {
    Refuse(fmt::format("schedule_decodes: from is {}; allowed: 0 to {}", from, size));
  }
  const std::int64_t count = std::min({size - from, tokens_left(), sequences_left()});
  if (count <= 0) return 0;
  ids_.clear();
  for (std::int64_t i = from; i < from + count; ++i) {
    const nb::handle element = requests[static_cast<std::size_t>(i)];
    if (!nb::isinstance<PolicyRequest>(element)) {
      throw nb::type_error(
          fmt::format("schedule_decodes: element {} is no twinserve.Request", i).c_str());
    }
    const PolicyRequest& request = *nb::inst_ptr<PolicyRequest>(element);
    if (request.scope != scope_) {
      Refuse(fmt::format("request {} belongs to another run", Index(request.id)));
    }
    if (request.has_left) Refuse(fmt::format("request {} has left the engine", Index(request.id)));
    ids_.push_back(request.id);
  }
  return static_cast<std::int64_t>(builder().ScheduleDecodes(ids_));
}

void PolicyStep::Unschedule(const PolicyRequest& request) {
  if (SequenceOf(request).last_step != builder().plan().id) {
    Refuse(fmt::format("unschedule: request {} is not in the step", Index(request.id)));
  }
  builder().Unschedule(request.id);
}

void PolicyStep::Preempt(nb::handle_t<PolicyRequest> request) {
  const auto& native = nb::cast<const PolicyRequest&>(request);
  Require(native, SequenceState::kRunning, "preempt");
  builder().PreemptByRecompute(native.id);
  Notify("preempted", request);
}

bool PolicyStep::SwapOut(nb::handle_t<PolicyRequest> request) {
  const auto& native = nb::cast<const PolicyRequest&>(request);
  if (Require(native, SequenceState::kRunning, "swap_out").in_flight > 0) {
    Refuse(fmt::format("swap_out: request {} is in the step", Index(native.id)));
  }
  if (!builder().SwapOut(native.id)) return false;
  Notify("swapped_out", request);
  return true;
}

bool PolicyStep::SwapIn(nb::handle_t<PolicyRequest> request) {
  const auto& native = nb::cast<const PolicyRequest&>(request);
  Require(native, SequenceState::kSwapped, "swap_in");
  if (!builder().SwapIn(native.id)) return false;
  Notify("swapped_in", request);
  return true;
}

void PolicyStep::Reject(nb::handle_t<PolicyRequest> request, const std::string& reason) {
  auto& native = *nb::inst_ptr<PolicyRequest>(request);
  Require(native, SequenceState::kWaiting, "reject");
  builder().Reject(native.id, ReasonOf(reason));
  native.has_left = true;
  Notify("remove", request);
}

std::int32_t PolicyStep::LookupPrefix(const PolicyRequest& request) const {
  if (SequenceOf(request).state == SequenceState::kFinished) return 0;
  return builder().LookupPrefix(request.id).blocks;
}

void PolicyStep::AttachPrefix(const PolicyRequest& request, std::int32_t blocks) {
  const Sequence& sequence = Require(request, SequenceState::kRunning, "attach_prefix");
  const std::int32_t cached = builder().LookupPrefix(request.id).blocks;
  if (blocks < 0 || blocks > cached || sequence.blocks.held() > 0) {
    Refuse(
        fmt::format("attach_prefix: {} blocks for request {}, of which {} are cached; allowed: 0 "
                    "to that number, before it holds blocks",
                    blocks, Index(request.id), cached));
  }
  builder().AttachPrefix(request.id, blocks);
}

void PolicyStep::PublishPrefix(const PolicyRequest& request, std::int32_t tokens) {
  const Sequence& sequence = Require(request, SequenceState::kRunning, "publish_prefix");
  const std::int32_t tokens_max =
      std::min({sequence.computed, sequence.known, sequence.blocks.capacity_tokens});
  if (tokens < 0 || tokens > tokens_max) {
    Refuse(fmt::format("publish_prefix: {} tokens of request {}; allowed: 0 to {}", tokens,
                       Index(request.id), tokens_max));
  }
  if (scope_->traits.caches_prefixes) builder().PublishPrefix(sequence, tokens);
}

}  // namespace twin::python
