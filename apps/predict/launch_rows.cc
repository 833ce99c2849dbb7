#include "apps/predict/launch_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "apps/predict/operation_predictor.h"
#include "core/statistics.h"

namespace twin::run {
namespace {

constexpr double kFloorQuantile = 0.05;
constexpr std::size_t kWorkShare = 10;  // the smallest tenth
constexpr double kFactorOfMedian = 3;   // floors above are suspect
constexpr double kFactorOfFloor = 2;    // times below are launches
constexpr double kShareOfRows = 0.3;
constexpr double kMicrosecondsPerSecond = 1e6;

double FloorOf(std::vector<LaunchSample> rows) {
  std::ranges::sort(rows, {}, &LaunchSample::work);
  rows.resize(std::max<std::size_t>(1, rows.size() / kWorkShare));
  std::vector<double> seconds;
  for (const LaunchSample& row : rows) seconds.push_back(row.seconds);
  return Quantile(std::move(seconds), kFloorQuantile);
}

}  // namespace

std::vector<LaunchFloor> FindLaunchFloors(const std::vector<LaunchSample>& rows,
                                          std::size_t groups) {
  std::vector<std::vector<LaunchSample>> by_group(groups);
  for (const LaunchSample& row : rows) by_group[row.group].push_back(row);
  std::vector<LaunchFloor> floors(groups);
  std::vector<double> seconds;
  for (std::size_t i = 0; i < groups; ++i) {
    floors[i].seconds = FloorOf(by_group[i]);
    seconds.push_back(floors[i].seconds);
  }
  if (groups == 0) return floors;
  const double median = Quantile(std::move(seconds), 0.5);
  for (std::size_t i = 0; i < groups; ++i) {
    const auto below = std::ranges::count_if(by_group[i], [&](const LaunchSample& row) {
      return row.seconds < kFactorOfFloor * floors[i].seconds;
    });
    floors[i].launch =
        floors[i].seconds > kFactorOfMedian * median &&
        static_cast<double>(below) >= kShareOfRows * static_cast<double>(by_group[i].size());
  }
  return floors;
}

std::vector<std::string> ExcludeLaunchRows(GemmRows& rows) {
  std::map<std::pair<sim::KernelLibrary, sim::GemmFormat>, std::size_t> groups;
  std::vector<LaunchSample> samples;
  for (const GemmRow& row : rows.rows) {
    const auto group = groups.try_emplace({row.library, row.format}, groups.size()).first;
    samples.push_back(
        {group->second,
         static_cast<double>(row.m) * static_cast<double>(row.n) * static_cast<double>(row.k),
         row.seconds});
  }
  const std::vector<LaunchFloor> floors = FindLaunchFloors(samples, groups.size());
  std::vector<std::size_t> excluded(groups.size(), 0);
  std::vector<GemmRow> kept;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const LaunchFloor& floor = floors[samples[i].group];
    if (floor.launch && samples[i].seconds < kFactorOfFloor * floor.seconds) {
      ++excluded[samples[i].group];
    } else {
      kept.push_back(rows.rows[i]);
    }
  }
  rows.rows = std::move(kept);
  std::vector<std::string> report;
  for (const auto& [key, group] : groups) {
    if (excluded[group] == 0) continue;
    report.push_back(fmt::format("{} {}: {} rows left out, times of launches (floor {:.0f} us)",
                                 NameOf(key.first), NameOf(key.second), excluded[group],
                                 kMicrosecondsPerSecond * floors[group].seconds));
  }
  return report;
}

}  // namespace twin::run
