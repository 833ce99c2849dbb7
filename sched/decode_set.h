// The requests of a replica that decode, as the steps that have returned show them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/ids.h"
#include "core/ring_queue.h"
#include "sched/step_plan.h"

namespace twin {

// Lets a world or an observer count a step that gives every decoding request its next token once
// for all of them. Such a step costs nothing per request, also where it computes prompts beside the
// decodes, and where requests join and leave.
//
// While the set is open, every living request that decodes is a member: it has had its first token
// since its latest admission. A step whose decodes are as many as the members, those of requests
// that have ended left out, therefore decodes all of them. The plan alone tells; neither the engine
// nor the policy is asked.
//
// The owner shows it every plan of the replica, in order, when it is launched and when it returns,
// lets a request join when it gets a token as no member, and lets it leave when it ends, is
// cancelled, or moves to another replica.
class DecodeSet {
 public:
  // The tokens that a step gives the members.
  enum class Tokens : std::uint8_t {
    kAll,    // one token each
    kNone,   // nothing: it holds no decodes
    kOther,  // to be found item by item; the set must be cleared
  };

  // So many members take no further memory.
  static constexpr std::size_t kMembersReserved = 64;

  DecodeSet() { members_.reserve(kMembersReserved); }

  // Requests that another replica has prefilled may come here: they decode from their admission on.
  void ReceivesKv() { receives_kv_ = true; }

  void Launched(const StepPlan& plan) { in_flight_.PushBack({&plan, 0}); }

  // The oldest step in flight returns. `item_by_item`: its results are not what its items promise.
  [[nodiscard]] Tokens Returned(bool item_by_item) {
    const Step step = in_flight_.PopFront();
    const StepPlan& plan = *step.plan;
    const StepTotals& totals = plan.totals;
    if (!open_ || item_by_item || totals.draft_items > 0 || !plan.preempted.empty() ||
        !plan.resumed.empty()) {
      return Tokens::kOther;
    }
    newcomers_ = totals.emitting_items;
    if (totals.decode_items == 0) return Tokens::kNone;
    const auto members = static_cast<std::int64_t>(members_.size());
    const std::int64_t started = receives_kv_ && !plan.admitted.empty() ? StartedDecodes(plan) : 0;
    if (totals.decode_items - step.ended - started != members) return Tokens::kOther;
    newcomers_ -= step.ended + members;
    ++steps_;
    return Tokens::kAll;
  }

  // Whether each step in flight gives all members a token, and does nothing else for a request.
  [[nodiscard]] bool OnlyDecodes() const;
  // The oldest step in flight returns, and one that repeats the latest is launched. REQUIRES:
  // OnlyDecodes().
  void Repeat() {
    in_flight_.PushBack(in_flight_.PopFront());
    newcomers_ = 0;
    ++steps_;
  }

  // Items of the latest step that yield a token to requests that were no members.
  [[nodiscard]] std::int64_t newcomers() const { return newcomers_; }
  // Steps so far that gave all members a token.
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] std::span<const RequestId> members() const { return members_; }

  // Whether the requests that got a token from `plan`, which was taken item by item, are now all
  // that decode, and the set may open: they join. It opens with the second such step, so that
  // policies whose steps all differ do not pay for it. REQUIRES: called once for each such step.
  [[nodiscard]] bool Opens(const StepPlan& plan);

  void Join(RequestId id) { members_.push_back(id); }
  // A request has ended or was cancelled. Its items in flight yield no token.
  void Ended(RequestId id);
  // A member has ended, was cancelled or moves on. Cost: linear in the members.
  void Leave(RequestId id);
  void Clear();

 private:
  struct Step {
    const StepPlan* plan = nullptr;
    std::int64_t ended = 0;  // decodes of requests that ended after it was planned
  };
  // Decodes of requests that the step admits.
  [[nodiscard]] static std::int64_t StartedDecodes(const StepPlan& plan);

  RingQueue<Step> in_flight_;
  std::vector<RequestId> members_;
  std::int64_t steps_ = 0;
  std::int64_t newcomers_ = 0;
  bool receives_kv_ = false;
  bool open_ = false;
  bool opens_next_ = false;  // the latest step would have opened the set
};

}  // namespace twin
