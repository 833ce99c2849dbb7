// The last step of making a request: the client's output limit and the predicted output length.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/random.h"
#include "core/traced_request.h"
#include "traces/trace_limits.h"
#include "traces/workload.h"

namespace twin {

// Rules that a workload applies to each request. Call for each request in order. Uses a random
// stream of its own.
class RequestRules {
 public:
  RequestRules(const MaxOutputRule& max_output, const PredictionConfig& prediction,
               std::uint64_t seed)
      : max_output_(max_output), prediction_(prediction), random_(seed, "prediction") {}

  // Sets max_output_tokens; a longer output is cut to the limit.
  void ApplyLimit(TracedRequest& request) const {
    if (max_output_.kind == MaxOutputRule::Kind::kFixed) {
      request.output_tokens = std::min(request.output_tokens, max_output_.tokens);
      request.max_output_tokens = max_output_.tokens;
    } else if (max_output_.kind == MaxOutputRule::Kind::kFactor) {
      request.max_output_tokens = RoundUp(request.output_tokens * max_output_.factor);
    } else {
      request.max_output_tokens = std::max(request.max_output_tokens, request.output_tokens);
    }
  }

  // Sets predicted_output_tokens.
  void ApplyPrediction(TracedRequest& request) {
    if (prediction_.kind == PredictionConfig::Kind::kOracle) {
      request.predicted_output_tokens = request.output_tokens;
    } else if (prediction_.kind == PredictionConfig::Kind::kLogNormal) {
      request.predicted_output_tokens =
          RoundUp(request.output_tokens * random_.LogNormal(0, prediction_.sigma));
    }
  }

 private:
  static std::int32_t RoundUp(double tokens) {
    return static_cast<std::int32_t>(std::clamp(std::ceil(tokens), 1.0, double{kTokensMax}));
  }

  MaxOutputRule max_output_;
  PredictionConfig prediction_;
  Random random_;
};

}  // namespace twin
