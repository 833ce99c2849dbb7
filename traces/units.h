// Units of times and counts as files name them: behind a name ("ttft_ms"), or in a field of its own
// ("unit": "ms"). One list for all readers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace twin {

// The units that end a name, behind its last _.
struct NameUnit {
  std::string_view suffix;
  double seconds;
};
inline constexpr NameUnit kNameUnits[] = {{"_s", 1}, {"_ms", 1e-3}, {"_us", 1e-6}, {"_ns", 1e-9}};

enum class Quantity : std::uint8_t { kTime, kTokens, kRequests, kTokenRate, kRequestRate };

// The factor from the unit to seconds, tokens, requests, or these per second; nullopt if it is no
// unit of the quantity. Capitals do not matter.
std::optional<double> FactorOfUnit(Quantity quantity, std::string_view unit);

// The units of the quantity, for error messages.
std::string_view UnitsAllowed(Quantity quantity);

}  // namespace twin
