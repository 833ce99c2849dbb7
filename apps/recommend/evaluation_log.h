// The runs of a search, in a file that a later search goes on with.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/files/output_file.h"

namespace twin::run {

// Result of one configuration at one load with one seed.
struct LoadRun {
  std::vector<double> metrics = {};  // by MetricKeys()
  std::vector<double> rooms = {};    // by bound, as a share of its limit; NaN: no value
};

// JSON lines: the first says what the search is, each other one is a run. Every line is
// written at once; an incomplete last line, of a process that was killed, is dropped. Thread-safe.
class EvaluationLog {
 public:
  // Reads the file if it is there, and makes it and its folder if not. `search`: whatever the
  // results depend on. Throws InputError (usage) if the file is of another search, (data) if it
  // cannot be written.
  EvaluationLog(std::filesystem::path path, const std::string& search);

  // The runs that were read, whatever was added since.
  [[nodiscard]] std::optional<LoadRun> Find(const std::string& key) const;

  // Throws InputError (data).
  void Add(const std::string& key, const LoadRun& run);

  // Removes the file, and the folder if nothing else is in it: the search has its answer.
  void Remove();

 private:
  void Read(const std::string& search);

  std::filesystem::path path_;
  std::map<std::string, LoadRun> read_;
  std::mutex mutex_;  // guards file_
  std::optional<OutputFile> file_;
};

}  // namespace twin::run
