#include "run/record/loss_warning.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "run/record/run_listener.h"

namespace twin {
namespace {

constexpr std::array<std::string_view, kRejectReasonNames.size()> kExplanations = {
    "longer than the model's or the policy's length limit (system.model_shape.max_position and the "
    "policy's max_model_len or its counterpart set it)",
    "too large for an empty KV cache", "sent while the system was full (overloaded)"};

constexpr double kUnansweredTold = 0.01;
constexpr std::int64_t kRequestsOfP99 = 100;

std::int64_t CountOf(const Summary& summary, std::string_view name) {
  return summary.Find(name) == nullptr ? 0 : static_cast<std::int64_t>(summary.Number(name));
}

// Says which clients the latencies cover, if many clients got no answer.
std::string UnansweredText(const Summary& summary) {
  const SummaryValue* const share = summary.Find("unanswered_share");
  const std::int64_t left = CountOf(summary, "cancelled") + CountOf(summary, "unfinished");
  if (share == nullptr || left == 0) return "";
  if (summary.Number("unanswered_share") < kUnansweredTold) return "";
  const std::int64_t arrived = CountOf(summary, "requests") + CountOf(summary, "unfinished");
  return fmt::format(
      "{} of {} requests got no answer ({} rejected, {} cancelled, {} unfinished): "
      "latencies are those of the others",
      arrived - CountOf(summary, "completed"), arrived, CountOf(summary, "rejected"),
      CountOf(summary, "cancelled"), CountOf(summary, "unfinished"));
}

std::string RejectionText(const Summary& summary) {
  const std::int64_t rejected = CountOf(summary, "rejected");
  if (rejected == 0) return "";
  std::string reasons;
  for (std::size_t i = 0; i < kRejectReasonNames.size(); ++i) {
    const std::int64_t count = CountOf(summary, fmt::format("rejected_{}", kRejectReasonNames[i]));
    if (count == 0) continue;
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", count, kExplanations[i]);
  }
  return fmt::format("{} of {} requests were rejected: {}", rejected, CountOf(summary, "requests"),
                     reasons);
}

}  // namespace

std::string LossWarning(const Summary& summary) {
  std::string text = UnansweredText(summary);
  const auto add = [&text](const std::string& more) {
    if (!more.empty()) text += (text.empty() ? "" : "; ") + more;
  };
  add(RejectionText(summary));
  if (const std::int64_t cut = CountOf(summary, "cut_outputs"); cut > 0) {
    add(fmt::format("{} of {} outputs ended below their limit because the context was full", cut,
                    CountOf(summary, "completed")));
  }
  return text;
}

std::string BurstWarning(const Summary& summary) {
  const SummaryValue* const share = summary.Find("burst_share_of_ttft_tail");
  if (share == nullptr || !(summary.Number("burst_share_of_ttft_tail") > 0.5)) return "";
  return fmt::format(
      "{:.0f} % of the slowest 1 % of the TTFTs are of requests that arrived together at the "
      "start; workload.arrivals.ramp_s spreads the first requests of a closed loop, "
      "metrics.head_share leaves them out",
      100 * summary.Number("burst_share_of_ttft_tail"));
}

std::string FewRequestsNote(const Summary& summary) {
  const std::int64_t completed = CountOf(summary, "completed");
  if (completed == 0 || completed >= kRequestsOfP99) return "";
  return fmt::format(
      "p99: of {} completed requests; a p99 of fewer than {} is close to the maximum", completed,
      kRequestsOfP99);
}

}  // namespace twin
