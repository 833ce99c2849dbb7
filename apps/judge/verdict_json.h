// Verdicts of the judge as JSON, and as lines for people.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "run/judge/judge.h"

namespace twin::apps {

// The circumstances of a verdict.
struct VerdictHeader {
  std::string policy;     // its name
  std::string file;       // empty: a policy of the registry
  std::string file_hash;  // HashOfSources()
  std::string language;   // "python", "c++", "registry"
  std::string set;
  std::string set_hash;
  run::JudgeSecret secret;
  std::uint64_t submission = 1;
  double confidence = 0;
  double cpu_s = 0;  // of this process and of the policy's
};

// The schema twinserve.verdict/1 (docs/judge.md). `score` is null, never 0, if the policy is
// invalid.
nlohmann::ordered_json VerdictJson(const VerdictHeader& header, const run::Verdict& verdict);

// The verdict in a few lines.
void PrintVerdict(std::ostream& out, const VerdictHeader& header, const run::Verdict& verdict);

}  // namespace twin::apps
