// study.json: the study of a folder, and the builds that made its rows.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/study/study.h"

namespace twin::run {

// A build of twinserve that made results.
struct StudyBuild {
  std::string version;
  std::string commit;
  bool dirty = false;  // with changes that are not committed

  bool operator==(const StudyBuild&) const = default;
  // Text such as "0.5.0 at 1234567890ab with changes".
  [[nodiscard]] std::string text() const;
};

StudyBuild ThisBuild();

// Facts about a study that continuing it needs.
struct StudyDocument {
  std::string hash;                        // empty: unreadable
  std::string run_hash;                    // Study::run_hash(); empty of an earlier version
  std::vector<std::string> texts;          // fields of the study as DifferentFields compares them
  StudyBuild build;                        // of the latest call
  std::vector<StudyBuild> earlier_builds;  // earlier ones with rows in the folder, each once

  // The builds of a folder that this build continues.
  [[nodiscard]] std::vector<StudyBuild> OthersThan(const StudyBuild& own) const;
};

// Reads study.json; nullopt if there is no such file.
std::optional<StudyDocument> ReadStudyDocument(const std::filesystem::path& file);

// The fields of a study in which another one of the same folder differs: "set", "axis".
std::vector<std::string> DifferentFields(const StudyDocument& document, const Study& study);

// study.json of this build.
std::string StudyJson(const Study& study, const std::vector<StudyBuild>& earlier_builds);

}  // namespace twin::run
