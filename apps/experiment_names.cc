#include "apps/experiment_names.h"

#include <array>
#include <system_error>
#include <utility>

namespace twin::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "experiments";
constexpr const char* kSuffix = ".textproto";

fs::path& DataFolder() {
  static fs::path folder;
  return folder;
}

bool IsFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace

void SetDataFolder(fs::path folder) { DataFolder() = std::move(folder); }

fs::path ExperimentFile(const fs::path& asked) {
  if (asked.empty() || asked.is_absolute() || IsFile(asked)) return asked;
  const fs::path& data = DataFolder();
  const std::array<fs::path, 3> folders = {kFolder, data, data.empty() ? data : data / kFolder};
  for (const fs::path& folder : folders) {
    if (folder.empty()) continue;
    const fs::path file = folder / asked;
    if (IsFile(file)) return file;
    if (IsFile(file.string() + kSuffix)) return file.string() + kSuffix;
  }
  return asked;
}

}  // namespace twin::apps
