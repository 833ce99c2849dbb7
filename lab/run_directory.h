// The folder that a run leaves behind.
#pragma once

#include <filesystem>
#include <string>

namespace twin::lab {

// Collects a run's files in a new folder DIR.partial.NUMBER, which Commit() renames to DIR; without
// it that folder is removed again. A DIR that is already there is replaced if it is a run directory
// (it holds summary.json and config.resolved.textproto) or empty, and refused with InputError
// (usage) otherwise; so is the current folder.
class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path path);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  // Where to write a file of the run before Commit().
  [[nodiscard]] std::filesystem::path File(const std::string& name) const {
    return partial_ / name;
  }

  void WriteText(const std::string& name, const std::string& text) const;
  void Commit();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  bool committed_ = false;
};

// What the process has used: CPU seconds of user and system, peak resident MiB.
struct ProcessUse {
  double cpu_seconds = 0;
  double peak_rss_mib = 0;
};
ProcessUse UseOfThisProcess();

}  // namespace twin::lab
