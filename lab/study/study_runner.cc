#include "lab/study/study_runner.h"

#include <utility>

#include "lab/study/parallel_runs.h"
#include "lab/study/point_runner.h"

namespace twin::lab {
namespace {

// Rows that one thread runs: a single one, or, if its warm-up is to be found, a whole point.
struct Work {
  std::size_t point = 0;
  std::vector<std::uint32_t> replications;
  std::vector<StudyRow> rows;  // once it has run
};

std::vector<Work> Divide(const Study& study, std::span<const std::size_t> rows) {
  const bool whole_points = study.config().warmup == WarmupRule::kMser5;
  std::vector<Work> works;
  for (const std::size_t row : rows) {
    const StudyRowId id = study.RowAt(row);
    if (!whole_points || works.empty() || works.back().point != id.point)
      works.push_back({.point = id.point, .replications = {}, .rows = {}});
    works.back().replications.push_back(id.replication);
  }
  return works;
}

}  // namespace

void RunStudy(const Study& study, std::span<const std::size_t> rows, const StudyRunOptions& options,
              RunControl& control, const std::function<void(const StudyRow&)>& on_row) {
  const int jobs = options.jobs > 0 ? options.jobs : DefaultJobs();
  std::vector<Work> works = Divide(study, rows);
  PointRunner runner(study, options, static_cast<std::size_t>(jobs));
  std::size_t done = 0;
  RunInParallel(
      works.size(), jobs, control,
      [&](std::size_t i, RunControl& stop) {
        works[i].rows = runner.Run(works[i].point, works[i].replications, stop);
      },
      [&](std::size_t i) {
        const std::vector<StudyRow> finished = std::exchange(works[i].rows, {});
        for (const StudyRow& row : finished) on_row(row);
        done += finished.size();
        control.OnProgress("runs", done, rows.size());
      });
  control.OnProgressEnd();
}

}  // namespace twin::lab
