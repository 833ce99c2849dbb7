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

  // The field "prompt" or "tokens" where it is a list of token ids, or a list of such lists: a DOM
  // of it would take eight times the memory of its text. The field itself is then an empty list.
  std::optional<std::vector<std::vector<std::int32_t>>> id_lists;
  bool nested = false;  // a list of lists
};

inline constexpr int kJsonDepthMax = 64;
inline constexpr std::size_t kJsonKeysMax = 1024;  // of one object, which keeps their order
inline constexpr int kJsonValuesMax = 1'000'000;   // besides token ids

// Refuses what is not one JSON object, deeper than kJsonDepthMax, or larger than the other
// bounds above; lists in "prompt" and "tokens" that mix ids with other things; ids outside 0 to
// 2^31 - 1. Of keys given twice the last one counts.
std::variant<JsonBody, ApiError> ReadJsonBody(std::string_view text);

}  // namespace twin::serve
