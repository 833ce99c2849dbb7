// Paths of the members of a request in the reports of benchmark tools.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "traces/json_fields.h"

namespace twin {

// Releases of inference-perf from 2026 on have the counts in request_metrics and response_metrics.
// The server's count of output tokens is preferred to the client's.
inline constexpr std::string_view kInferencePerfInputs[] = {
    "info.request_metrics.text.input_tokens", "info.input_tokens"};
inline constexpr std::string_view kInferencePerfOutputs[] = {
    "info.response_metrics.server_usage.completion_tokens", "info.response_metrics.output_tokens",
    "info.output_tokens"};

// The first of the paths that the request has; the last one if it has none.
inline std::string_view FirstPresent(const JsonRequestFields& fields,
                                     std::span<const std::string_view> paths) {
  const auto found = std::ranges::find_if(
      paths, [&](std::string_view path) { return fields.Find(path) != nullptr; });
  return found == paths.end() ? paths.back() : *found;
}

}  // namespace twin
