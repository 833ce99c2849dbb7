// Assumptions of a recommendation, and what it does not consider.
#pragma once

#include <string>
#include <vector>

#include "apps/recommend/candidate.h"
#include "apps/recommend/candidate_evaluator.h"
#include "apps/recommend/recommendation.h"

namespace twin::run {

// Sets the objective, its unit, the load of the request, and the assumptions and limits that every
// answer to the request has.
void DescribeSearch(const RecommendConfig& request, const CandidateSpace& space,
                    const CandidateEvaluator& evaluator, Recommendation& answer);

// Adds what the servers of the candidates do and the simulation does not, each line once.
void AssumeServers(const std::vector<Candidate>& candidates, std::vector<std::string>& assumptions);

}  // namespace twin::run
