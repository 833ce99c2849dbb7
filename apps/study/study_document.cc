#include "apps/study/study_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "run/version.h"

namespace twin::run {
namespace {

using Json = nlohmann::ordered_json;

// Empty if the field is missing or no text.
std::string TextOf(const Json& json, const char* field) {
  const auto found = json.find(field);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

StudyBuild BuildOf(const Json& json) {
  const auto dirty = json.find("dirty");
  return {.version = TextOf(json, "version"),
          .commit = TextOf(json, "commit"),
          .dirty = dirty != json.end() && dirty->is_boolean() && dirty->get<bool>()};
}

Json BuildJson(const StudyBuild& build) {
  return {{"version", build.version}, {"commit", build.commit}, {"dirty", build.dirty}};
}

Json AxesJson(const Study& study) {
  Json axes = Json::array();
  const auto describe = [](const AxisConfig& axis) {
    Json json{{"path", axis.path}};
    if (!axis.values.empty()) json["values"] = axis.values;
    if (!axis.files.empty()) json["files"] = axis.files;
    if (axis.from) {
      json["from"] = *axis.from;
      json["to"] = *axis.to;
      json["steps"] = axis.steps;
      json["log"] = axis.log;
    }
    return json;
  };
  for (const AxisConfig& axis : study.config().axes) {
    Json json = describe(axis);
    for (const AxisConfig& coupled : axis.coupled) json["coupled"].push_back(describe(coupled));
    axes.push_back(std::move(json));
  }
  return axes;
}

// Fields of study.json that decide about runs.
constexpr std::array kDecidingFields = {"base",          "axis",   "sampling",
                                        "sampling_seed", "points", "replications",
                                        "seeds",         "warmup", "set"};

std::vector<std::string> TextsOf(const Json& json) {
  std::vector<std::string> texts;
  for (const char* const field : kDecidingFields) {
    const auto found = json.find(field);
    texts.push_back(found == json.end() ? "" : found->dump());
  }
  return texts;
}

}  // namespace

std::vector<std::string> DifferentFields(const StudyDocument& document, const Study& study) {
  const std::vector<std::string> own = TextsOf(Json::parse(StudyJson(study, {})));
  std::vector<std::string> fields;
  for (std::size_t i = 0; i < own.size() && i < document.texts.size(); ++i) {
    if (own[i] != document.texts[i]) fields.emplace_back(kDecidingFields.at(i));
  }
  return fields;
}

std::string StudyBuild::text() const {
  if (version.empty()) return "an unknown version";
  return fmt::format("{} at {}{}", version, commit.empty() ? "an unknown commit" : commit,
                     dirty ? " with changes" : "");
}

StudyBuild ThisBuild() { return {.version = kVersion, .commit = kCommit, .dirty = kDirty}; }

std::vector<StudyBuild> StudyDocument::OthersThan(const StudyBuild& own) const {
  std::vector<StudyBuild> others = earlier_builds;
  others.push_back(build);
  std::erase(others, own);
  return others;
}

std::optional<StudyDocument> ReadStudyDocument(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  std::ifstream in(file);
  const Json json = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  StudyDocument document;
  if (!json.is_object()) return document;
  document.hash = TextOf(json, "hash");
  document.run_hash = TextOf(json, "run_hash");
  document.texts = TextsOf(json);
  document.build = BuildOf(json);
  if (const auto earlier = json.find("earlier_builds"); earlier != json.end()) {
    for (const Json& build : *earlier) {
      if (build.is_object()) document.earlier_builds.push_back(BuildOf(build));
    }
  }
  return document;
}

std::string StudyJson(const Study& study, const std::vector<StudyBuild>& earlier_builds) {
  const StudyConfig& config = study.config();
  const StudyBuild build = ThisBuild();
  Json earlier = Json::array();
  for (const StudyBuild& other : earlier_builds) earlier.push_back(BuildJson(other));
  constexpr std::array kSamplings = {"grid", "latin_hypercube", "sobol"};
  constexpr std::array kWarmups = {"experiment", "mser5"};
  Json seeds = Json::array();
  for (std::uint32_t i = 0; i < config.replications; ++i) seeds.push_back(study.SeedOf(i));
  Json derived = Json::array();
  for (const DerivedConfig& column : config.derived)
    derived.push_back({{"name", column.name}, {"value", column.value}});
  Json json{{"hash", study.hash()},
            {"run_hash", study.run_hash()},
            {"version", build.version},
            {"commit", build.commit},
            {"dirty", build.dirty},
            {"earlier_builds", std::move(earlier)},
            {"base", config.bases},
            {"axis", AxesJson(study)},
            {"columns", study.columns()},
            {"sampling", kSamplings.at(static_cast<std::size_t>(config.sampling.kind))},
            {"sampling_seed", config.sampling.seed},
            {"points", study.points()},
            {"replications", config.replications},
            {"seeds", std::move(seeds)},
            {"warmup", kWarmups.at(static_cast<std::size_t>(config.warmup))},
            {"set", study.changes()},
            {"runs", config.runs},
            {"derived", std::move(derived)},
            {"primary", config.primary}};
  return json.dump(2) + "\n";
}

}  // namespace twin::run
