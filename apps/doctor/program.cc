#include "apps/doctor/program.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "run/version.h"

namespace twin::apps {

std::string ProgramLine() {
  return fmt::format("program   twinserve {} ({}{}), {}, {}\n", run::kVersion, run::kCommit,
                     run::kDirty ? ", changed" : "", run::kBuildType, run::kCompiler);
}

nlohmann::ordered_json ProgramJson() {
  return {{"version", run::kVersion}, {"commit", run::kCommit}, {"build_type", run::kBuildType}};
}

}  // namespace twin::apps
