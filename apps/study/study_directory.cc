#include "apps/study/study_directory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

#include "apps/study/study_differences.h"
#include "apps/study/study_document.h"
#include "apps/study/study_summary.h"
#include "core/csv.h"
#include "core/files/output_file.h"
#include "core/input_error.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kErrorsShown = 3;
constexpr std::string_view kStudyFile = "study.json";
constexpr std::string_view kResultsFile = "results.csv";
constexpr std::string_view kParquetFile = "results.parquet";  // made of the former by Python
constexpr std::string_view kSummaryFile = "summary.csv";
constexpr std::string_view kDifferencesFile = "differences.csv";

[[noreturn]] void RefuseFolder(const fs::path& folder, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, folder.string(), what);
}

// Whether a killed process left the file: NAME.partial.NUMBER of one that is written here
// (output_file.h).
bool IsLeftover(const fs::path& path) {
  constexpr std::string_view kPartial = ".partial.";
  const std::string name = path.filename().string();
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{kStudyFile, kResultsFile, kSummaryFile,
                                              kDifferencesFile},
      [&](std::string_view file) {
        const std::string stem = fmt::format("{}{}", file, kPartial);
        return name.size() > stem.size() && name.starts_with(stem) &&
               std::all_of(name.begin() + static_cast<std::ptrdiff_t>(stem.size()), name.end(),
                           [](unsigned char c) { return std::isdigit(c) != 0; });
      });
}

// A folder of a study.
struct OwnFolder {
  std::vector<StudyBuild> other_builds;  // that made its rows
  bool is_extended = false;              // it has fewer values of axes, or fewer replications
};

// Throws unless the rows of another study are rows of this one, too.
void RequireExtension(const Study& study, const StudyDocument& document, const fs::path& out,
                      const fs::path& runs) {
  const std::vector<std::string> fields = DifferentFields(document, study);
  const std::string named =
      fields.empty() ? "a file that it names" : fmt::format("{}", fmt::join(fields, ", "));
  if (document.run_hash.empty() || document.run_hash != study.run_hash()) {
    RefuseFolder(out, fmt::format("holds another study (hash {}, this one has {}), which differs "
                                  "in {}; allowed: more values of an axis or more replications, "
                                  "whose runs are added, or another --out",
                                  document.hash.empty() ? "unreadable" : document.hash,
                                  study.hash(), named));
  }
  const bool keeps_points = std::ranges::find(fields, "points") == fields.end() &&
                            std::ranges::find(fields, "axis") == fields.end();
  std::error_code unknown;
  if (!keeps_points && fs::exists(runs, unknown) && !fs::is_empty(runs, unknown)) {
    RefuseFolder(out,
                 "keeps run directories, whose points would get other numbers; allowed: more "
                 "replications, or another --out");
  }
}

// The folder is new or empty, or holds this study, or runs of it.
OwnFolder RequireOwnFolder(const Study& study, const fs::path& out, const fs::path& runs,
                           bool accept_other_build) {
  const std::optional<StudyDocument> document = ReadStudyDocument(out / kStudyFile);
  if (!document) {
    for (const auto& entry : fs::directory_iterator(out)) {
      if (!IsLeftover(entry.path()) && entry.path().filename() != ".lock")
        RefuseFolder(out, "already exists and is not a study's folder; choose another --out");
    }
    return {};
  }
  const bool is_extended = document->hash != study.hash();
  if (is_extended) RequireExtension(study, *document, out, runs);
  if (document->build != ThisBuild() && !accept_other_build) {
    RefuseFolder(
        out, fmt::format("holds rows of another build ({}; this one is {}), which may give other "
                         "results; allowed: --accept-other-build, or another --out",
                         document->build.text(), ThisBuild().text()));
  }
  return {document->OthersThan(ThisBuild()), is_extended};
}

// REQUIRES: the folder is locked, so that no other process is writing them.
void RemoveLeftovers(const fs::path& out) {
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(out)) {
    if (entry.is_regular_file() && IsLeftover(entry.path())) left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove(path);
}

// A row whose run directory is wanted needs that as well.
bool IsDone(const Study& study, const ResultsFile& results, const fs::path& runs, std::size_t row) {
  if (!results.Has(row)) return false;
  const StudyRowId id = study.RowAt(row);
  return !study.KeepsRuns(id.point) || fs::is_directory(RunFolderOf(runs, id));
}

// Bytes up to the end of the last whole line.
std::uintmax_t WholeLines(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::uintmax_t bytes = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) bytes += line.size() + 1;
  return bytes;
}

}  // namespace

TimingFile::TimingFile(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::uintmax_t bytes = WholeLines(path);
  if (std::filesystem::exists(path)) std::filesystem::resize_file(path, bytes, ignored);
  out_.open(path, std::ios::app | std::ios::binary);
  if (bytes == 0) out_ << "point,replication,wall_seconds\n";
}

void TimingFile::Append(const StudyRow& row) {
  CsvLine line;
  line.Count(row.id.point).Count(row.id.replication);
  line.Word(fmt::format("{:.6f}", row.wall_seconds)).WriteTo(out_);
  out_.flush();
}

StudyDirectory::StudyDirectory(const Study& study, const fs::path& out, bool accept_other_build)
    : study_(study), out_(out), runs_(out / "runs") {
  std::error_code error;
  fs::create_directories(out, error);
  if (!fs::is_directory(out)) {
    RefuseFolder(out, fmt::format("is no folder, and none can be made there{}",
                                  error ? ": " + error.message() : ""));
  }
  lock_ = std::make_unique<FolderLock>(out);
  const OwnFolder folder = RequireOwnFolder(study, out, runs_, accept_other_build);
  RemoveLeftovers(out);
  const auto write_study = [&] {
    WriteFile(out / kStudyFile, StudyJson(study, folder.other_builds));
  };
  // Rows that an extended study lacks refuse it: then the folder stays as it was.
  if (!folder.is_extended) write_study();
  results_ = std::make_unique<ResultsFile>(out / kResultsFile, study, folder.is_extended);
  if (folder.is_extended) write_study();
  if (results_->renumbered()) fs::remove(out / "timing.csv");  // of other numbers
  timing_ = std::make_unique<TimingFile>(out / "timing.csv");
  for (std::size_t row = 0; row < study.rows(); ++row) {
    if (!IsDone(study, *results_, runs_, row)) missing_.push_back(row);
  }
}

StudyDirectory::~StudyDirectory() = default;

void StudyDirectory::Append(const StudyRow& row, RunControl& control) {
  ++made_;
  results_->Append(row);
  timing_->Append(row);
  if (row.error.empty() || results_->failed() > kErrorsShown) return;
  control.OnWarning(fmt::format("point {}: {}", row.id.point, row.error));
}

SweepOutcome StudyDirectory::Finish() {
  results_->Finish();
  fs::remove(out_ / kParquetFile);
  WriteStudySummary(out_ / kResultsFile, study_, out_ / kSummaryFile);
  if (study_.config().bases.size() > 1)
    WriteStudyDifferences(out_ / kResultsFile, study_, out_ / kDifferencesFile);
  const std::size_t before = study_.rows() - missing_.size();
  return {.rows = study_.rows(),
          .done_before = before,
          .done = before + made_,
          .failed = results_->failed(),
          .interrupted = made_ < missing_.size()};
}

SweepOutcome RunSweep(const Study& study, const fs::path& out, const SweepOptions& options,
                      RunControl& control) {
  StudyDirectory directory(study, out, options.accept_other_build);
  const std::vector<std::size_t>& missing = directory.missing();
  if (missing.size() < study.rows()) {
    control.OnNote(fmt::format("{} of {} runs are there from before", study.rows() - missing.size(),
                               study.rows()));
  }
  RunStudy(study, missing,
           {.jobs = options.jobs,
            .runs_folder = directory.runs_folder(),
            .command_line = options.command_line},
           control, [&](const StudyRow& row) { directory.Append(row, control); });
  return directory.Finish();
}

}  // namespace twin::run
