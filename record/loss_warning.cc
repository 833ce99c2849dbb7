#include "record/loss_warning.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "record/run_listener.h"

namespace twin {
namespace {

constexpr std::array<std::string_view, kRejectReasonNames.size()> kExplanations = {
    "longer than the model's or the policy's length limit", "too large for an empty KV cache",
    "sent while the system was full (overloaded)"};

std::int64_t CountOf(const Summary& summary, std::string_view name) {
  return summary.Find(name) == nullptr ? 0 : static_cast<std::int64_t>(summary.Number(name));
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
  std::string text = RejectionText(summary);
  if (const std::int64_t cut = CountOf(summary, "cut_outputs"); cut > 0) {
    text += fmt::format("{}{} of {} outputs ended below their limit because the context was full",
                        text.empty() ? "" : "; ", cut, CountOf(summary, "completed"));
  }
  return text;
}

}  // namespace twin
