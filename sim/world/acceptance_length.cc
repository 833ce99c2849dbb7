#include "sim/world/acceptance_length.h"

#include <array>
#include <cstddef>

#include "core/check.h"

namespace twin::sim {
namespace {

constexpr std::size_t kDraftsMeasured = 8;

struct MeasuredLengths {
  std::string_view model;
  SpecMethod method;
  std::array<double, kDraftsMeasured> lengths;  // with 1, 2, ... drafts
};

constexpr std::array kMeasured = {
    MeasuredLengths{"glm-5.2", SpecMethod::kMtp, {1.84, 2.50, 2.99, 3.33, 3.61, 3.78, 3.91, 4.06}},
    MeasuredLengths{
        "qwen3.5-397b-a17b", SpecMethod::kMtp, {1.93, 2.73, 3.39, 3.97, 4.41, 4.80, 5.04, 5.21}},
    MeasuredLengths{
        "kimi-k2.5", SpecMethod::kEagle, {1.83, 2.43, 2.88, 3.24, 3.46, 3.62, 3.71, 3.77}},
    MeasuredLengths{
        "minimax-m3", SpecMethod::kEagle, {1.78, 2.38, 2.83, 3.11, 3.35, 3.45, 3.53, 3.74}},
};

// Whether `name` is `model`, or the model in another format, as glm-5.2-fp8 is glm-5.2.
bool IsOrHasFormat(std::string_view name, std::string_view model) {
  return name == model || (name.starts_with(model) && name[model.size()] == '-');
}

double LengthOf(double rate, std::int32_t drafts) {
  double length = 1;
  double accepted = 1;
  for (std::int32_t i = 0; i < drafts; ++i) length += accepted *= rate;
  return length;
}

}  // namespace

double AcceptanceRateOf(double length, std::int32_t drafts) {
  CHECK(drafts >= 1 && length >= 1 && length <= drafts + 1);
  double low = 0;
  double high = 1;
  // Each round halves the interval; 53 use up the digits of a double.
  for (int round = 0; round < 53; ++round) {
    const double middle = (low + high) / 2;
    (LengthOf(middle, drafts) < length ? low : high) = middle;
  }
  return high;
}

std::optional<double> MeasuredAcceptanceLength(std::string_view model, SpecMethod method,
                                               std::int32_t drafts) {
  if (drafts < 1 || static_cast<std::size_t>(drafts) > kDraftsMeasured) return std::nullopt;
  for (const MeasuredLengths& row : kMeasured) {
    if (row.method == method && IsOrHasFormat(model, row.model)) {
      return row.lengths[static_cast<std::size_t>(drafts) - 1];
    }
  }
  return std::nullopt;
}

std::string ModelsWithAcceptanceLengths(SpecMethod method) {
  std::string models;
  for (const MeasuredLengths& row : kMeasured) {
    if (row.method != method) continue;
    if (!models.empty()) models += ", ";
    models += row.model;
  }
  return models;
}

}  // namespace twin::sim
