#include "run/run_directory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/files/input_file.h"
#include "core/files/output_file.h"
#include "core/input_error.h"
#include "core/printable.h"
#include "run/record/metric_catalog.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunSummaryFile = "summary.json";
constexpr std::size_t kSummaryBytesMax = std::size_t{64} << 20;

[[noreturn]] void Refuse(const fs::path& path, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, path.string(), what);
}

fs::path WithoutSlash(const fs::path& path) {
  return path.filename().empty() ? path.parent_path() : path;
}

// Returns `path` without a trailing slash, if a run may replace what is there: nothing, an empty
// folder, or an earlier run, but never the current folder of the process or one above it.
fs::path Replaceable(const fs::path& given) {
  fs::path path = WithoutSlash(given);
  std::error_code error;
  if (!fs::exists(fs::status(path, error))) return path;
  const bool is_run =
      fs::exists(path / kRunSummaryFile) && fs::exists(path / "config.resolved.textproto");
  if (!is_run && !(fs::is_directory(path) && fs::is_empty(path))) {
    Refuse(path, "already exists and is not a run directory; choose another --out");
  }
  const fs::path from_it = fs::current_path().lexically_relative(fs::canonical(path));
  if (!from_it.empty() && *from_it.begin() != "..") {
    Refuse(path, "is the current folder or one above it; choose another --out");
  }
  return path;
}

// A metric with a unit is a number; other metrics may be texts, such as the digest.
void RequireKindOf(const fs::path& file, const std::string& name,
                   const nlohmann::ordered_json& value) {
  if (value.is_null() || value.is_number()) return;
  const Metric* const metric = FindMetric(name);
  const bool is_text = metric == nullptr || metric->unit.empty();
  if (value.is_string() && is_text) return;
  throw InputError(InputError::Kind::kData, file.string(),
                   fmt::format("{} is {}; allowed: {}", Printable(name), value.type_name(),
                               is_text ? "a number, a string or null" : "a number or null"));
}

}  // namespace

RunDirectory::RunDirectory(const fs::path& path, RunControl* control, Appearance appearance)
    : path_(Replaceable(path.lexically_normal())), appearance_(appearance) {
  if (fs::exists(path_ / kRunSummaryFile)) replacing_ = control;
  if (appearance == Appearance::kWhenComplete) {
    partial_.emplace(path_, control);
    return;
  }
  if (fs::exists(path_)) {
    path_ = fs::canonical(path_);
    old_ = fmt::format("{}.old.{}", path_.string(), getpid());
    fs::rename(path_, old_);
  }
  MakeOutputFolder(path_);
}

RunDirectory::~RunDirectory() {
  if (partial_ || committed_) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (!old_.empty()) fs::rename(old_, path_, ignored);
}

void RunDirectory::Commit() {
  if (std::exchange(committed_, true)) return;
  if (replacing_ != nullptr) {
    replacing_->OnNote(fmt::format("{}: replaces the run that is there", path_.string()));
  }
  if (partial_) partial_->Commit();
  if (!old_.empty()) fs::remove_all(old_);
}

void RunDirectory::WriteText(const std::string& name, const std::string& text) const {
  WriteFile(File(name), text);
}

Summary ReadSummary(const fs::path& run) {
  const fs::path file = run / kRunSummaryFile;
  if (!fs::exists(file))
    Refuse(run, fs::exists(run / "record.pb")
                    ? "has no summary.json: the run was killed, or goes on; allowed after "
                      "twinserve replay --finish, which completes it from its record"
                    : "is not a run directory: it has no summary.json");
  const auto json = nlohmann::ordered_json::parse(ReadFile(file, kSummaryBytesMax), nullptr,
                                                  /*allow_exceptions=*/false);
  if (!json.is_object())
    throw InputError(InputError::Kind::kData, file.string(), "is not a JSON object");
  Summary summary;
  for (const auto& [name, value] : json.items()) {
    RequireKindOf(file, name, value);
    if (value.is_number_integer()) {
      summary.Set(name, value.get<std::int64_t>());
    } else if (value.is_number()) {
      summary.Set(name, value.get<double>());
    } else if (value.is_string()) {
      summary.Set(name, value.get<std::string>());
    }
  }
  return summary;
}

std::string RunName(const fs::path& path) { return WithoutSlash(path).filename().string(); }

}  // namespace twin::run
