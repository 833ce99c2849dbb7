#include "run/record/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace twin {
namespace {

std::string Text(RequestId id) { return "r" + std::to_string(Index(id)); }

std::string Text(const WorkItem& item) {
  std::string text = Text(item.request);
  text += item.phase == Phase::kPrefill ? ":P" : ":D";
  text += std::to_string(item.tokens);
  if (item.padded_tokens > 0) text += "/" + std::to_string(item.padded_tokens);
  if (item.drafts > 0) text += "v" + std::to_string(item.drafts);
  return text;
}

std::string Text(const Preemption& p) {
  return Text(p.request) + (p.how == Preemption::How::kSwap ? "s" : "");
}

std::string Text(const Rejection& r) { return Text(r.request); }

std::string Text(const PrefixHit& hit) {
  return Text(hit.request) + ":" + std::to_string(hit.tokens);
}

std::string Text(const KvOperation& op) {
  constexpr const char* kNames[] = {"allocate", "attach",   "release",     "swap out",
                                    "swap in",  "replace",  "allocate in", "attach in",
                                    "skip in",  "drop from"};
  using Kind = KvOperation::Kind;
  std::string text = kNames[static_cast<std::size_t>(op.kind)];
  text += " " + Text(op.request);
  if (op.block != BlockId::kNone) text += " block " + std::to_string(static_cast<int>(op.block));
  if (op.other == BlockId::kNone) return text;
  const bool swaps = op.kind == Kind::kSwapOut || op.kind == Kind::kSwapIn;
  const char* other = swaps ? " host " : op.kind == Kind::kReplace ? " of " : " table ";
  text += other + std::to_string(static_cast<int>(op.other));
  return text;
}

// An element with everything that the short notation leaves out.
std::string FullText(const WorkItem& item) {
  return Text(item) + " at " + std::to_string(item.start) + (item.emits ? " emits" : "");
}
std::string FullText(const Rejection& r) {
  constexpr std::array<const char*, 3> kReasons = {"too long", "too large for the cache",
                                                   "overloaded"};
  return fmt::format("{} {}", Text(r), kReasons[static_cast<std::size_t>(r.reason)]);
}
template <class T>
std::string FullText(const T& element) {
  return Text(element);
}

template <class T>
void AppendPart(std::string& line, const char* name, const std::vector<T>& list) {
  if (list.empty()) return;
  line += std::string(" | ") + name + "=[";
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) line += ",";
    line += Text(list[i]);
  }
  line += "]";
}

// Sets `difference` if none is known yet.
template <class T>
void Compare(const char* name, const std::vector<T>& left, const std::vector<T>& right,
             std::optional<PlanDifference>& difference) {
  if (difference || left == right) return;
  const std::size_t common = std::min(left.size(), right.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (left[i] == right[i]) continue;
    difference = PlanDifference{std::string(name) + "[" + std::to_string(i) + "]",
                                FullText(left[i]), FullText(right[i])};
    return;
  }
  const auto element = [common](const std::vector<T>& list) {
    return list.size() > common ? FullText(list[common]) : std::string("nothing");
  };
  difference = PlanDifference{std::string(name) + "[" + std::to_string(common) + "]", element(left),
                              element(right)};
}

}  // namespace

std::string PlanText(const StepPlan& plan) {
  std::string line = "it" + std::to_string(Index(plan.id)) + ":";
  if (plan.replica > 0) line = "replica " + std::to_string(plan.replica) + " " + line;
  for (const WorkItem& item : plan.work) line += " " + Text(item);
  AppendPart(line, "pre", plan.preempted);
  AppendPart(line, "adm", plan.admitted);
  AppendPart(line, "res", plan.resumed);
  AppendPart(line, "rel", plan.released);
  AppendPart(line, "pad", plan.padding_rows);
  AppendPart(line, "rej", plan.rejected);
  AppendPart(line, "hit", plan.hits);
  line += " | free=" + std::to_string(plan.free_blocks);
  return line;
}

std::optional<PlanDifference> FirstDifference(const StepPlan& left, const StepPlan& right) {
  std::optional<PlanDifference> difference;
  if (left.replica != right.replica) {
    difference =
        PlanDifference{"replica", std::to_string(left.replica), std::to_string(right.replica)};
  } else if (left.id != right.id) {
    difference =
        PlanDifference{"id", std::to_string(Index(left.id)), std::to_string(Index(right.id))};
  }
  Compare("work", left.work, right.work, difference);
  Compare("preempted", left.preempted, right.preempted, difference);
  Compare("admitted", left.admitted, right.admitted, difference);
  Compare("resumed", left.resumed, right.resumed, difference);
  Compare("released", left.released, right.released, difference);
  Compare("padding_rows", left.padding_rows, right.padding_rows, difference);
  Compare("rejected", left.rejected, right.rejected, difference);
  Compare("hits", left.hits, right.hits, difference);
  Compare("kv", left.kv, right.kv, difference);
  return difference;
}

}  // namespace twin
