// The JSON object in the body of a request, read with bounds on what it may cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/serve/protocol/api_error.h"

namespace twin::serve {

struct JsonBody {
  nlohmann::ordered_json fields;  // an object

  // The field "prompt" or "tokens" if it is a list of token ids, or a list of such lists: a DOM of
  // it would take eight times the memory of its text. The field itself is then an empty list.
  std::optional<std::vector<std::vector<std::int32_t>>> id_lists;
  bool nested = false;  // a list of lists
};

inline constexpr int kJsonDepthMax = 64;
inline constexpr std::size_t kJsonKeysMax = 1024;  // of one object, which keeps their order
inline constexpr int kJsonValuesMax = 1'000'000;   // besides token ids

// Refuses text that is not one JSON object, nests deeper than kJsonDepthMax, or exceeds the other
// bounds above; also lists in "prompt" and "tokens" that mix ids with other values, and ids outside
// 0 to 2^31 - 1. If a key is given twice, the last one counts.
std::variant<JsonBody, ApiError> ReadJsonBody(std::string_view text);

}  // namespace twin::serve
