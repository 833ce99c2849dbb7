#include "apps/experiment_options/range_ratio.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "config/servers/servers.h"

namespace twin::apps {

const Server* BenchServer(const GivenOptions& given) {
  if (given.bench != nullptr) return given.bench;
  const GivenOption* const backend = given.Find(ExperimentOption::kBackend);
  if (backend == nullptr) return nullptr;
  const auto newest = NewestOfServer(backend->value);
  const auto listed = FindServer(newest ? *newest : std::string_view(backend->value));
  if (!listed) return nullptr;
  const Server* const server = listed->server;
  return server == &kVllmServer || server == &kSglangServer ? server : nullptr;
}

std::pair<std::int64_t, std::int64_t> RatioRange(const Server& bench, double ratio,
                                                 std::int64_t length) {
  const auto part = [length](double share) {
    return std::max<std::int64_t>(std::llround(share * static_cast<double>(length)), 1);
  };
  if (&bench == &kVllmServer) return {part(1 - ratio), part(1 + ratio)};
  return {part(ratio), length};
}

}  // namespace twin::apps
