// Random lengths as benchmarks of servers draw them: --random-range-ratio.
#pragma once

#include <cstdint>
#include <utility>

#include "apps/experiment_options/given_options.h"
#include "config/servers/server.h"

namespace twin::apps {

// The server whose benchmark sends the requests, if --bench or --backend names vLLM's or
// SGLang's, whose rules differ; null otherwise.
const Server* BenchServer(const GivenOptions& given);

// The lengths about `length` that the ratio R means: L (1 - R) to L (1 + R) with vLLM, L R to L
// with SGLang, at least 1. REQUIRES: 0 <= ratio <= 1.
std::pair<std::int64_t, std::int64_t> RatioRange(const Server& bench, double ratio,
                                                 std::int64_t length);

}  // namespace twin::apps
