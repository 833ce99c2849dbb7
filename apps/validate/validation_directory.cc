#include "apps/validate/validation_directory.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "apps/validate/validation_report.h"
#include "core/files/output_file.h"
#include "core/input_error.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarker = ".twinserve-validation";
constexpr const char* kJson = "validation.json";
constexpr const char* kText = "report.txt";

bool IsRealRun(const std::string& name) {
  constexpr std::string_view kStem = "real_";
  return name.starts_with(kStem) && name.size() > kStem.size() &&
         std::all_of(name.begin() + kStem.size(), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

ValidationDirectory::ValidationDirectory(fs::path path) : path_(std::move(path)) {
  const auto refuse = [this](const char* what) {
    throw InputError(InputError::Kind::kUsage, path_.string(), what);
  };
  if (!fs::exists(path_)) return;
  if (!fs::is_directory(path_) || (!fs::is_empty(path_) && !fs::exists(path_ / kMarker))) {
    refuse(
        "already exists and is not a validation; allowed: a new --out, or an earlier validation");
  }
  const fs::path from_it = fs::current_path().lexically_relative(fs::canonical(path_));
  if (!from_it.empty() && *from_it.begin() != "..") {
    refuse("is the current folder or one above it; allowed: another --out");
  }
}

void ValidationDirectory::BeginMeasuring(const std::string& key) const {
  MakeOutputFolder(path_);
  const bool resumes = FileText(path_ / kMarker) == key && !fs::exists(path_ / kJson);
  if (!resumes) {
    BeginComparing();
    std::vector<fs::path> old;
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (IsRealRun(entry.path().filename().string())) old.push_back(entry.path());
    }
    for (const fs::path& run : old) fs::remove_all(run);
  }
  MarkAs(key);
}

void ValidationDirectory::BeginComparing() const {
  MakeOutputFolder(path_);
  for (const fs::path& file : {path_ / kJson, path_ / kText, Page()}) fs::remove(file);
  fs::remove_all(Simulated());
  if (!fs::exists(path_ / kMarker)) MarkAs("");
}

void ValidationDirectory::MarkAs(const std::string& key) const { WriteFile(path_ / kMarker, key); }

void ValidationDirectory::Write(const Validation& validation) const {
  std::ostringstream text;
  WriteValidationText(text, validation);
  WriteFile(path_ / kText, text.str());
  WriteFile(Page(), ValidationHtml(validation));
  WriteFile(path_ / kJson, ValidationJson(validation));
}

bool IsCompleteRun(const fs::path& run) {
  return fs::exists(run / "parts.csv") &&
         FileText(run / "summary.json").find("\"interrupted\": 0") != std::string::npos;
}

std::string FileText(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace twin::run
