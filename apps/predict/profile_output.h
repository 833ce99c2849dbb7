// Writes the files of a profile that an import made.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/profile_folder.h"
#include "run/run_control.h"

namespace twin::run {

// Writes a part of a profile in less space: repeated `rows` as one list, and without fields of
// attention tables that have their defaults. REQUIRES: `text` ends with a line break, and holds
// none within values.
std::string CompactProfileText(std::string_view text);

// Collects the files of an import, which all appear when it ends: an import that fails leaves a
// folder as it was.
class ProfileOutput {
 public:
  // Throws InputError (data) if the folder can neither be made nor written. Makes nothing yet.
  explicit ProfileOutput(std::filesystem::path out);

  // Keeps `text` for the file OUT/`device`/FileName(part).
  void Add(std::string_view device, ProfilePart part, const std::string& text);
  [[nodiscard]] bool empty() const { return files_.empty(); }

  // Writes all files, compact, and then gives them their names, with a note for each. Throws
  // InputError (data), and ends early as EndIfStopped() does. REQUIRES: called once.
  void Commit(RunControl& control) const;

 private:
  struct File {
    std::filesystem::path path;
    std::string text;
  };

  std::filesystem::path out_;
  std::vector<File> files_;
};

}  // namespace twin::run
