// The folder that a validation leaves behind.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lab/validation/validation.h"

namespace twin::lab {

// PATH/real_1, real_2, ... and PATH/simulated are run directories; validation.json, report.txt and
// report.html say what came of them.
class ValidationDirectory {
 public:
  // Looks, and changes nothing. Throws InputError (usage) if `path` is there and is neither empty
  // nor a validation's, or is the current folder or one above it.
  explicit ValidationDirectory(std::filesystem::path path);

  // Makes the folder ready for measuring what `key` names. Runs that an earlier call measured for
  // the same key stay if it was interrupted before it could compare them; of anything else,
  // exactly the files named above are removed.
  void BeginMeasuring(const std::string& key) const;
  // Makes the folder ready for a comparison of runs that lie elsewhere, or here.
  void BeginComparing() const;

  [[nodiscard]] std::filesystem::path Real(int number) const {
    return path_ / ("real_" + std::to_string(number));
  }
  [[nodiscard]] std::filesystem::path Simulated() const { return path_ / "simulated"; }
  [[nodiscard]] std::filesystem::path Page() const { return path_ / "report.html"; }

  // Each file beside its name first, so that nobody reads half of it; validation.json last.
  void Write(const Validation& validation) const;

 private:
  void MarkAs(const std::string& key) const;

  std::filesystem::path path_;
};

// A real run that was not interrupted.
bool IsCompleteRun(const std::filesystem::path& run);

// All of a file; empty if it cannot be read.
std::string FileText(const std::filesystem::path& file);

}  // namespace twin::lab
