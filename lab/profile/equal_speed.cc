#include "lab/profile/equal_speed.h"

#include <algorithm>
#include <vector>

#include "core/quantile.h"
#include "sched/computed_rows.h"

namespace twin::lab {
namespace {

constexpr std::size_t kRowsBeside = 3;  // on either side
// Products of so few rows are bound by memory.
constexpr std::int64_t kDecodeRows = 4;

std::vector<double> Smoothed(const std::vector<double>& values) {
  std::vector<double> smooth;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t begin = i - std::min(i, kRowsBeside);
    const std::size_t end = std::min(values.size(), i + kRowsBeside + 1);
    smooth.push_back(Quantile({values.begin() + static_cast<std::ptrdiff_t>(begin),
                               values.begin() + static_cast<std::ptrdiff_t>(end)},
                              0.5));
  }
  return smooth;
}

bool IsDecode(const ProfileRow& row) {
  if (row.totals.tokens() > 0) return IsSingleTokenStep(row.totals);
  return row.size <= kDecodeRows;
}

void Scale(ProfileRow& row, double factor) {
  for (double* const value : {&row.median_us, &row.p10_us, &row.p90_us}) *value *= factor;
  for (double& part : row.parts_us) part *= factor;
}

}  // namespace

exec::ProbeSeconds ScaleToOneSpeed(Profile& profile) {
  std::vector<double> decode;
  std::vector<double> prefill;
  for (const ProfileRow& row : profile.rows) {
    if (row.decode_probe_us <= 0 || row.prefill_probe_us <= 0) return {};
    decode.push_back(row.decode_probe_us);
    prefill.push_back(row.prefill_probe_us);
  }
  if (profile.rows.empty()) return {};
  const double decode_us = Quantile(decode, 0.5);
  const double prefill_us = Quantile(prefill, 0.5);
  decode = Smoothed(decode);
  prefill = Smoothed(prefill);
  for (std::size_t i = 0; i < profile.rows.size(); ++i) {
    ProfileRow& row = profile.rows[i];
    Scale(row, IsDecode(row) ? decode_us / decode[i] : prefill_us / prefill[i]);
  }
  return {1e-6 * decode_us, 1e-6 * prefill_us};
}

}  // namespace twin::lab
