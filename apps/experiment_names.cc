#include "apps/experiment_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/input_error.h"
#include "core/nearest_names.h"
#include "core/printable.h"

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

// The names below a folder `experiments`, in alphabetical order. Files that begin with "_" are
// bases of others.
std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.extension() != kSuffix || path.filename().string().starts_with('_')) continue;
    names.push_back(fs::path(path).replace_extension().lexically_relative(folder).string());
  }
  std::ranges::sort(names);
  return names;
}

// A name is not the path of a file: it has no suffix, and does not begin like a path.
bool IsName(const fs::path& asked) {
  return asked.is_relative() && asked.extension().empty() && !asked.string().starts_with('.');
}

[[noreturn]] void RefuseName(const std::string& asked, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  if (names.empty()) {
    throw InputError(InputError::Kind::kUsage, Printable(asked),
                     "is no file, and there is no folder experiments here, in which names are "
                     "looked up; allowed: a file, or a name where that folder lies");
  }
  throw InputError(
      InputError::Kind::kUsage, Printable(asked),
      fmt::format("is no file and no experiment by name; nearest {}; allowed: a file, or "
                  "a name of the folder experiments",
                  NearestNames(asked, views)));
}

}  // namespace

void SetDataFolder(fs::path folder) { DataFolder() = std::move(folder); }

std::optional<fs::path> FindExperiment(const fs::path& asked) {
  const fs::path& data = DataFolder();
  const std::array<fs::path, 3> folders = {kFolder, data, data.empty() ? data : data / kFolder};
  for (const fs::path& folder : folders) {
    if (folder.empty()) continue;
    const fs::path file = folder / asked;
    if (IsFile(file)) return file;
    if (IsFile(file.string() + kSuffix)) return file.string() + kSuffix;
  }
  return std::nullopt;
}

fs::path ExperimentFile(const fs::path& asked) {
  if (asked.empty() || asked.is_absolute() || IsFile(asked)) return asked;
  if (const std::optional<fs::path> found = FindExperiment(asked)) return *found;
  const fs::path& data = DataFolder();
  std::error_code ignored;
  if (!IsName(asked) || fs::exists(asked, ignored)) return asked;
  std::vector<std::string> names = NamesIn(kFolder);
  if (names.empty() && !data.empty()) names = NamesIn(data / kFolder);
  RefuseName(asked.string(), names);
}

}  // namespace twin::apps
