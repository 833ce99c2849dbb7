#include "run/record/replay_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace twin {
namespace {

std::string TextOf(const StepPlan* plan) {
  return plan == nullptr ? std::string("no plan") : PlanText(*plan);
}

std::string TextOf(const KvTransfer* transfer) {
  if (transfer == nullptr) return "no transfer";
  std::string text =
      fmt::format("r{} from replica {} to {}, tokens {} to {}, blocks", Index(transfer->request),
                  transfer->from, transfer->to, transfer->start, transfer->tokens);
  for (std::size_t i = 0; i < transfer->source.size(); ++i) {
    text += fmt::format(" {}>{}", static_cast<int>(transfer->source[i]),
                        static_cast<int>(transfer->target[i]));
  }
  return text;
}

bool SameTransfer(const KvTransfer& a, const KvTransfer& b) {
  return a.request == b.request && a.from == b.from && a.to == b.to && a.start == b.start &&
         a.tokens == b.tokens && std::ranges::equal(a.source, b.source) &&
         std::ranges::equal(a.target, b.target);
}

}  // namespace

std::string ReplayDifference::text() const {
  return "first difference at " + std::to_string(Nanoseconds(now)) + " ns, in " + where.field +
         ": recorded " + where.left + ", decided " + where.right + "\n  recorded " + recorded +
         "\n  decided  " + decided;
}

Instant ReplayWorld::Advance(TimePoint /*wake_at*/) {
  if (!difference_) {
    if (const StepPlan* missed = source_.NextPlan()) {
      Differ({"plan", "a plan", "none"}, missed, nullptr);
    } else if (const KvTransfer* not_begun = source_.NextTransfer()) {
      MissTransfer(not_begun, nullptr);
    }
  }
  Instant instant{now_, {}};
  if (!difference_ && source_.NextInstant(instant)) now_ = instant.now;
  return instant;
}

void ReplayWorld::Launch(const StepPlan& plan) {
  if (difference_) return;
  const StepPlan* recorded = source_.NextPlan();
  if (recorded == nullptr) {
    Differ({"plan", "none", "a plan"}, nullptr, &plan);
  } else if (std::optional<PlanDifference> where = FirstDifference(*recorded, plan)) {
    Differ(*std::move(where), recorded, &plan);
  } else {
    ++equal_plans_;
  }
}

void ReplayWorld::Transfer(const KvTransfer& transfer) {
  if (difference_) return;
  const StepPlan* const missed = source_.NextPlan();
  if (missed != nullptr) {
    Differ({"plan", "a plan", "none"}, missed, nullptr);
    return;
  }
  const KvTransfer* const recorded = source_.NextTransfer();
  if (recorded == nullptr || !SameTransfer(*recorded, transfer)) MissTransfer(recorded, &transfer);
}

void ReplayWorld::MissTransfer(const KvTransfer* recorded, const KvTransfer* decided) {
  const std::string left = TextOf(recorded);
  const std::string right = TextOf(decided);
  difference_ = ReplayDifference{now_, {"transfer", left, right}, left, right};
}

void ReplayWorld::Differ(PlanDifference where, const StepPlan* recorded, const StepPlan* decided) {
  difference_ = ReplayDifference{now_, std::move(where), TextOf(recorded), TextOf(decided)};
}

}  // namespace twin
