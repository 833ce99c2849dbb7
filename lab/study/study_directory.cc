#include "lab/study/study_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>

#include <nlohmann/json.hpp>

#include "core/input_error.h"
#include "files/output_file.h"
#include "lab/study/csv_row.h"
#include "lab/study/results_file.h"
#include "lab/study/study_differences.h"
#include "lab/study/study_runner.h"
#include "lab/study/study_summary.h"
#include "lab/version.h"

namespace twin::lab {
namespace {

namespace fs = std::filesystem;
using StudyDocument = nlohmann::ordered_json;

constexpr std::size_t kErrorsShown = 3;

[[noreturn]] void RefuseFolder(const fs::path& folder, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, folder.string(), what);
}

// One process at a time: the lock ends with it.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), folder.string());
    if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
    close(descriptor_);
    RefuseFolder(folder,
                 "another process is running this study; wait for it, or choose another "
                 "--out");
  }
  ~FolderLock() { close(descriptor_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

// The folder is new or empty, or holds this study.
void RequireOwnFolder(const Study& study, const fs::path& out) {
  const fs::path file = out / "study.json";
  if (!fs::exists(file)) {
    if (!fs::is_empty(out))
      RefuseFolder(out, "already exists and is not a study's folder; choose another --out");
    return;
  }
  std::ifstream in(file);
  const auto json = StudyDocument::parse(in, nullptr, /*allow_exceptions=*/false);
  const bool has_hash = json.is_object() && json.contains("hash") && json["hash"].is_string();
  const std::string hash = has_hash ? json["hash"].get<std::string>() : "";
  if (hash != study.hash()) {
    RefuseFolder(out, fmt::format("holds another study (hash {}, this one has {}): its fields, its "
                                  "experiments or their files differ; choose another --out",
                                  hash.empty() ? "unreadable" : hash, study.hash()));
  }
}

void WriteTiming(const fs::path& path, const StudyRow& row) {
  const bool is_new = !fs::exists(path);
  std::ofstream out(path, std::ios::app | std::ios::binary);
  if (is_new) out << "point,replication,wall_seconds\n";
  out << fmt::format("{},{},{:.6f}\n", row.id.point, row.id.replication, row.wall_seconds);
}

StudyDocument AxesJson(const Study& study) {
  StudyDocument axes = StudyDocument::array();
  const auto describe = [](const AxisConfig& axis) {
    StudyDocument json{{"path", axis.path}};
    if (!axis.values.empty()) json["values"] = axis.values;
    if (!axis.files.empty()) json["files"] = axis.files;
    if (axis.from) {
      json["from"] = *axis.from;
      json["to"] = *axis.to;
      json["steps"] = axis.steps;
      json["log"] = axis.log;
    }
    return json;
  };
  for (const AxisConfig& axis : study.config().axes) {
    StudyDocument json = describe(axis);
    for (const AxisConfig& coupled : axis.coupled) json["coupled"].push_back(describe(coupled));
    axes.push_back(std::move(json));
  }
  return axes;
}

}  // namespace

std::string StudyJson(const Study& study) {
  const StudyConfig& config = study.config();
  constexpr std::array kSamplings = {"grid", "latin_hypercube", "sobol"};
  constexpr std::array kWarmups = {"experiment", "mser5"};
  StudyDocument seeds = StudyDocument::array();
  for (std::uint32_t i = 0; i < config.replications; ++i) seeds.push_back(study.SeedOf(i));
  StudyDocument json{{"hash", study.hash()},
                     {"version", kVersion},
                     {"base", config.bases},
                     {"axis", AxesJson(study)},
                     {"columns", study.columns()},
                     {"sampling", kSamplings.at(static_cast<std::size_t>(config.sampling.kind))},
                     {"sampling_seed", config.sampling.seed},
                     {"points", study.points()},
                     {"replications", config.replications},
                     {"seeds", std::move(seeds)},
                     {"warmup", kWarmups.at(static_cast<std::size_t>(config.warmup))},
                     {"set", study.changes()},
                     {"runs", config.runs}};
  return json.dump(2) + "\n";
}

SweepOutcome RunSweep(const Study& study, const fs::path& out, int jobs,
                      const std::vector<std::string>& command_line, RunControl& control) {
  std::error_code error;
  fs::create_directories(out, error);
  if (!fs::is_directory(out)) RefuseFolder(out, "is no folder, and none can be made there");
  const FolderLock lock(out);
  RequireOwnFolder(study, out);
  WriteFile(out / "study.json", StudyJson(study));
  ResultsFile results(out / "results.csv", study);
  SweepOutcome outcome{.rows = study.rows()};
  std::vector<std::size_t> missing;
  for (std::size_t row = 0; row < study.rows(); ++row) {
    if (!results.Has(row)) missing.push_back(row);
  }
  outcome.done_before = study.rows() - missing.size();
  if (outcome.done_before > 0) {
    control.OnNote(
        fmt::format("{} of {} runs are there from before", outcome.done_before, study.rows()));
  }
  std::size_t made = 0;
  const auto take = [&](const StudyRow& row) {
    ++made;
    results.Append(row);
    WriteTiming(out / "timing.csv", row);
    if (row.error.empty() || results.failed() > kErrorsShown) return;
    control.OnWarning(fmt::format("point {}: {}", row.id.point, row.error));
  };
  RunStudy(study, missing,
           {.jobs = jobs, .runs_folder = out / "runs", .command_line = command_line}, control,
           take);
  results.Finish();
  WriteStudySummary(out / "results.csv", study, out / "summary.csv");
  if (study.config().bases.size() > 1)
    WriteStudyDifferences(out / "results.csv", study, out / "differences.csv");
  outcome.done = outcome.done_before + made;
  outcome.failed = results.failed();
  outcome.interrupted = made < missing.size();
  return outcome;
}

}  // namespace twin::lab
