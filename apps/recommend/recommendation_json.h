// A recommendation as JSON, and as files.
#pragma once

#include <filesystem>
#include <string>

#include "apps/recommend/recommendation.h"

namespace twin::run {

// One object: configurations, sensitivity, pareto, rejected, and how they were found. Undefined
// numbers are null. Equal answers give equal texts.
std::string RecommendationJson(const Recommendation& answer, const RecommendConfig& request);

// Writes recommendation.json and, for each configuration, configurations/RANK.textproto: the
// experiment of one of its engines at its share of the load, for `twinserve run`. Existing files
// are replaced. Throws std::system_error.
void WriteRecommendation(const Recommendation& answer, const RecommendConfig& request,
                         const std::filesystem::path& out);

// RecommendOptions::log of a search whose answer goes into this folder.
std::filesystem::path LogIn(const std::filesystem::path& out);

}  // namespace twin::run
