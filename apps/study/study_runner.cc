#include "apps/study/study_runner.h"

#include <fmt/format.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/study/point_runner.h"
#include "run/many/distinct_reports.h"
#include "run/many/forked_runs.h"
#include "run/many/packed_json.h"
#include "run/many/parallel_runs.h"

namespace twin::run {
namespace {

using Json = nlohmann::ordered_json;

// Divides rows into pieces that one thread runs: single rows, or, where the warm-up of a point is
// to be found from all its runs, all rows of a point.
class Pieces {
 public:
  Pieces(const Study& study, std::span<const std::size_t> rows) : study_(study), rows_(rows) {
    if (study.config().warmup != WarmupRule::kMser5) return;
    whole_points_ = true;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i == 0 || PointOf(i) != PointOf(i - 1)) begins_.push_back(i);
    }
  }

  [[nodiscard]] std::size_t size() const { return whole_points_ ? begins_.size() : rows_.size(); }
  [[nodiscard]] std::size_t PointOfPiece(std::size_t piece) const { return PointOf(Begin(piece)); }
  [[nodiscard]] std::vector<std::uint32_t> ReplicationsOf(std::size_t piece) const {
    std::vector<std::uint32_t> replications;
    for (std::size_t i = Begin(piece); i < Begin(piece + 1); ++i)
      replications.push_back(study_.RowAt(rows_[i]).replication);
    return replications;
  }

 private:
  [[nodiscard]] std::size_t PointOf(std::size_t i) const { return study_.RowAt(rows_[i]).point; }
  [[nodiscard]] std::size_t Begin(std::size_t piece) const {
    if (!whole_points_) return piece;
    return piece < begins_.size() ? begins_[piece] : rows_.size();
  }

  const Study& study_;
  std::span<const std::size_t> rows_;
  bool whole_points_ = false;
  std::vector<std::size_t> begins_;  // of whole points
};

// Rows of pieces that have run, until they are collected.
class FinishedRows {
 public:
  void Put(std::size_t piece, std::vector<StudyRow> rows) {
    const std::lock_guard lock(mutex_);
    rows_[piece] = std::move(rows);
  }
  std::vector<StudyRow> Take(std::size_t piece) {
    const std::lock_guard lock(mutex_);
    return std::move(rows_.extract(piece).mapped());
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<StudyRow>> rows_;
};

// Rows as bytes, and back.
std::string PackedRows(const std::vector<StudyRow>& rows) {
  Json json = Json::array();
  for (const StudyRow& row : rows) {
    Json summary = Json::array();
    for (const SummaryEntry& entry : row.summary.entries()) {
      std::visit([&](const auto& value) { summary.push_back({entry.name, value}); }, entry.value);
    }
    json.push_back({row.id.point, row.id.replication, row.seed, row.error, row.wall_seconds,
                    std::move(summary)});
  }
  return Packed(json);
}

SummaryValue ValueOf(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number_float()) return json.get<double>();
  return json.get<std::int64_t>();
}

std::vector<StudyRow> Unpacked(const std::string& bytes) {
  std::vector<StudyRow> rows;
  for (const Json& json : Json::from_msgpack(bytes)) {
    StudyRow& row = rows.emplace_back();
    row.id = {json[0].get<std::size_t>(), json[1].get<std::uint32_t>()};
    row.seed = json[2].get<std::uint64_t>();
    row.error = json[3].get<std::string>();
    row.wall_seconds = json[4].get<double>();
    for (const Json& entry : json[5]) {
      row.summary.Set(entry[0].get<std::string>(), ValueOf(entry[1]));
    }
  }
  return rows;
}

}  // namespace

std::filesystem::path RunFolderOf(const std::filesystem::path& runs_folder, const StudyRowId& row) {
  return runs_folder / fmt::format("{}_{}", row.point, row.replication);
}

void RunStudy(const Study& study, std::span<const std::size_t> rows, const StudyRunOptions& options,
              RunControl& control, const std::function<void(const StudyRow&)>& on_row) {
  const int jobs = options.jobs > 0 ? options.jobs : DefaultJobs();
  const Pieces pieces(study, rows);
  PointRunner runner(study, options, static_cast<std::size_t>(jobs));
  DistinctReports reports(control);
  std::size_t done = 0;
  const auto run = [&](std::size_t i, RunControl& inner) {
    return runner.Run(pieces.PointOfPiece(i), pieces.ReplicationsOf(i), inner);
  };
  const auto collect = [&](const std::vector<StudyRow>& made) {
    for (const StudyRow& row : made) on_row(row);
    done += made.size();
    control.OnProgress("runs", done, rows.size());
  };
  if (const auto fork = options.may_fork ? study.Fork() : nullptr) {
    RunInProcesses(
        pieces.size(), jobs, reports, fork,
        [&](std::size_t i, RunControl& inner) { return PackedRows(run(i, inner)); },
        [&](std::size_t /*i*/, const std::string& bytes) { collect(Unpacked(bytes)); });
  } else {
    FinishedRows finished;
    RunInParallel(
        pieces.size(), jobs, reports,
        [&](std::size_t i, RunControl& inner) { finished.Put(i, run(i, inner)); },
        [&](std::size_t i) { collect(finished.Take(i)); });
  }
  control.OnProgressEnd();
  reports.Finish();
}

}  // namespace twin::run
