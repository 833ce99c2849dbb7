// study.json: what a study's folder holds, and which build made it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/study/study.h"

namespace twin::run {

// Which twinserve made results.
struct StudyBuild {
  std::string version;
  std::string commit;
  bool dirty = false;  // with changes that are not committed

  bool operator==(const StudyBuild&) const = default;
  // Such as "0.5.0 at 1234567890ab with changes".
  [[nodiscard]] std::string text() const;
};

StudyBuild ThisBuild();

// What continuing a study needs to know of it.
struct StudyDocument {
  std::string hash;                        // empty: unreadable
  StudyBuild build;                        // of the latest call
  std::vector<StudyBuild> earlier_builds;  // others that made rows of the same folder, each once

  // The builds of a folder that this build continues.
  [[nodiscard]] std::vector<StudyBuild> OthersThan(const StudyBuild& own) const;
};

// Of study.json; nothing if there is no such file.
std::optional<StudyDocument> ReadStudyDocument(const std::filesystem::path& file);

// study.json of this build.
std::string StudyJson(const Study& study, const std::vector<StudyBuild>& earlier_builds);

}  // namespace twin::run
