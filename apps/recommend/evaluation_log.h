// The evaluations of a search, in a file that a later search goes on with.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/files/output_file.h"

namespace twin::run {

// Result of one configuration with one seed.
struct Evaluation {
  double value = 0;                  // of the objective, in its unit
  double limit = 0;                  // the largest load of the machine; 0: not searched
  std::vector<double> metrics = {};  // at the load of the request, by MetricKeys()
  std::int64_t runs = 0;             // simulations that it took
};

// JSON lines: the first says what the search is, each other one is an evaluation. Every line is
// written at once; an incomplete last line, of a process that was killed, is dropped. Thread-safe.
class EvaluationLog {
 public:
  // Reads the file if it is there, and makes it and its folder if not. `search`: whatever the
  // results depend on. Throws InputError (usage) if the file is of another search, (data) if it
  // cannot be written.
  EvaluationLog(std::filesystem::path path, const std::string& search);

  // The evaluations that were read, whatever was added since.
  [[nodiscard]] std::optional<Evaluation> Find(const std::string& key) const;

  // Throws InputError (data).
  void Add(const std::string& key, const Evaluation& evaluation);

  // Removes the file, and the folder if nothing else is in it: the search has its answer.
  void Remove();

 private:
  void Read(const std::string& search);

  std::filesystem::path path_;
  std::map<std::string, Evaluation> read_;
  std::mutex mutex_;  // guards file_
  std::optional<OutputFile> file_;
};

}  // namespace twin::run
