#include "lab/run_directory.h"

#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

#include "core/input_error.h"
#include "files/output_file.h"

namespace twin::lab {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Refuse(const fs::path& path, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, path.string(), what);
}

fs::path WithoutSlash(const fs::path& path) {
  return path.filename().empty() ? path.parent_path() : path;
}

// `path` without a trailing slash, if a run may replace what is there: nothing, an empty folder, or
// an earlier run, but never the current folder of the process or one above it.
fs::path Replaceable(const fs::path& given) {
  fs::path path = WithoutSlash(given);
  std::error_code error;
  if (!fs::exists(fs::status(path, error))) return path;
  const bool is_run =
      fs::exists(path / "summary.json") && fs::exists(path / "config.resolved.textproto");
  if (!is_run && !(fs::is_directory(path) && fs::is_empty(path))) {
    Refuse(path, "already exists and is not a run directory; choose another --out");
  }
  const fs::path from_it = fs::current_path().lexically_relative(fs::canonical(path));
  if (!from_it.empty() && *from_it.begin() != "..") {
    Refuse(path, "is the current folder or one above it; choose another --out");
  }
  return path;
}

}  // namespace

RunDirectory::RunDirectory(const fs::path& path, RunControl* control, Appearance appearance)
    : path_(Replaceable(path.lexically_normal())) {
  if (appearance == Appearance::kWhenComplete) {
    partial_.emplace(path_, control);
    return;
  }
  if (fs::exists(path_)) fs::remove_all(fs::canonical(path_));
  MakeOutputFolder(path_);
}

void RunDirectory::WriteText(const std::string& name, const std::string& text) const {
  WriteFile(File(name), text);
}

Summary ReadSummary(const fs::path& run) {
  const fs::path file = run / "summary.json";
  std::ifstream in(file);
  if (!in) Refuse(run, "is not a run directory: it has no summary.json");
  const auto json = nlohmann::ordered_json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    throw InputError(InputError::Kind::kData, file.string(), "is not a JSON object");
  Summary summary;
  for (const auto& [name, value] : json.items()) {
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

}  // namespace twin::lab
