// Sensitivity of a configuration: the objective with one setting changed at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/recommend/candidate_evaluator.h"
#include "apps/recommend/recommendation.h"

namespace twin::run {

// A setting's other values around a configuration.
struct SettingVariants {
  std::string path = {};
  std::string value = {};
  std::vector<CandidateSettings> choices = {};
  std::vector<std::string> values = {};  // as text
  std::vector<double> ratios = {};       // new value / old value; empty: no numbers
};

// Numbers are halved and doubled, the share of memory is moved by a twentieth of the device; other
// settings take the values that the request allows. Settings that the request fixes to one value
// are left out.
std::vector<SettingVariants> VariantsOf(const CandidateSpace& space,
                                        const CandidateSettings& choice);

// The variants that run, in their order. Appends to `reasons`, for each variant, why it does not
// run; empty: it runs. A variant also does not run if it refuses requests that `own`, the
// configuration itself, serves.
std::vector<Candidate> MakeVariants(const CandidateSpace& space,
                                    const std::vector<SettingVariants>& settings,
                                    const Candidate& own, CandidateEvaluator& evaluator,
                                    CostCache& costs, std::vector<std::string>& reasons);

// Computes sensitivities from the objective with each variant, by variant (nullopt: it does not
// run), and from the objective of the configuration itself, whose seeds are the same. Elasticities
// are ln(value ratio) / ln(setting ratio) between the outermost variants that ran.
SettingSensitivity SensitivityOf(const SettingVariants& variants,
                                 const std::vector<std::optional<RootOfMean>>& values,
                                 const RootOfMean& own, const std::string& objective,
                                 double tolerance);

}  // namespace twin::run
