#include "apps/serve/protocol/load_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace twin::serve {

int RetryAfter(const run::ServiceState& state) {
  const double seconds = Seconds(state.now.time_since_epoch());
  const double rate = seconds > 0 ? static_cast<double>(state.prompt_tokens) / seconds : 0;
  if (rate <= 0) return 1;
  const double wait = static_cast<double>(state.waiting_prompt_tokens) / rate;
  return static_cast<int>(std::clamp(std::ceil(wait), 1.0, 60.0));
}

std::string LoadText(std::string_view format, const run::ServiceState& state) {
  if (format == "JSON") {
    return fmt::format(R"(JSON {{"named_metrics":{{"kv_cache_usage_perc":{},)"
                       R"("num_requests_waiting":{}}}}})",
                       state.kv_usage, state.waiting);
  }
  return fmt::format(
      "TEXT named_metrics.kv_cache_usage_perc={},named_metrics.num_requests_waiting={}",
      state.kv_usage, state.waiting);
}

}  // namespace twin::serve
