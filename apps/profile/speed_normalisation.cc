#include "apps/profile/speed_normalisation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/statistics.h"
#include "sched/computed_rows.h"

namespace twin::run {
namespace {

constexpr std::size_t kProbesBeside = 10;  // on either side: about five seconds in all
// Products of so few rows are bound by memory.
constexpr std::int64_t kDecodeRows = 4;

// A probe, and the rows that were measured after it.
struct ProbedRows {
  double decode_us = 0;
  double prefill_us = 0;
  std::int32_t round = 0;
  std::size_t first = 0;
  std::size_t last = 0;
};

// The probes with their rows; empty if a row has no probe.
std::vector<ProbedRows> ProbesOf(const std::vector<ProfileRow>& rows) {
  std::vector<ProbedRows> probes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ProfileRow& row = rows[i];
    if (row.decode_probe_us <= 0 || row.prefill_probe_us <= 0) return {};
    const bool same = !probes.empty() && probes.back().round == row.round &&
                      probes.back().decode_us == row.decode_probe_us &&
                      probes.back().prefill_us == row.prefill_probe_us;
    if (!same) probes.push_back({row.decode_probe_us, row.prefill_probe_us, row.round, i, i});
    probes.back().last = i;
  }
  return probes;
}

double MedianAround(const std::vector<ProbedRows>& probes, std::size_t at,
                    double ProbedRows::*time) {
  const std::size_t begin = at - std::min(at, kProbesBeside);
  const std::size_t end = std::min(probes.size(), at + kProbesBeside + 1);
  std::vector<double> values;
  for (std::size_t i = begin; i < end; ++i) {
    if (probes[i].round == probes[at].round) values.push_back(probes[i].*time);
  }
  return Median(std::move(values));
}

double MedianOf(const std::vector<ProbedRows>& probes, double ProbedRows::*time) {
  std::vector<double> values;
  for (const ProbedRows& probe : probes) values.push_back(probe.*time);
  return Median(std::move(values));
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
  const std::vector<ProbedRows> probes = ProbesOf(profile.rows);
  if (probes.empty()) return {};
  const double decode_us = MedianOf(probes, &ProbedRows::decode_us);
  const double prefill_us = MedianOf(probes, &ProbedRows::prefill_us);
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const double decode = decode_us / MedianAround(probes, i, &ProbedRows::decode_us);
    const double prefill = prefill_us / MedianAround(probes, i, &ProbedRows::prefill_us);
    for (std::size_t at = probes[i].first; at <= probes[i].last; ++at) {
      ProfileRow& row = profile.rows[at];
      Scale(row, IsDecode(row) ? decode : prefill);
    }
  }
  return {1e-6 * decode_us, 1e-6 * prefill_us};
}

}  // namespace twin::run
