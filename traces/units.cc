#include "traces/units.h"

#include <algorithm>
#include <iterator>

#include "core/letter_case.h"

namespace twin {
namespace {

struct Unit {
  Quantity quantity;
  std::string_view name;
  double factor = 1;
};

constexpr Unit kUnits[] = {{Quantity::kTime, "s"},
                           {Quantity::kTime, "sec"},
                           {Quantity::kTime, "second"},
                           {Quantity::kTime, "seconds"},
                           {Quantity::kTime, "ms", 1e-3},
                           {Quantity::kTime, "msec", 1e-3},
                           {Quantity::kTime, "millisecond", 1e-3},
                           {Quantity::kTime, "milliseconds", 1e-3},
                           {Quantity::kTime, "us", 1e-6},
                           {Quantity::kTime, "\u00b5s", 1e-6},  // micro sign
                           {Quantity::kTime, "\u03bcs", 1e-6},  // Greek mu
                           {Quantity::kTime, "usec", 1e-6},
                           {Quantity::kTime, "microsecond", 1e-6},
                           {Quantity::kTime, "microseconds", 1e-6},
                           {Quantity::kTime, "ns", 1e-9},
                           {Quantity::kTime, "nsec", 1e-9},
                           {Quantity::kTime, "nanosecond", 1e-9},
                           {Quantity::kTime, "nanoseconds", 1e-9},
                           {Quantity::kTokens, "tokens"},
                           {Quantity::kTokens, "token"},
                           {Quantity::kRequests, "requests"},
                           {Quantity::kRequests, "request"},
                           {Quantity::kRequests, "count"},
                           {Quantity::kTokenRate, "tokens/sec"},
                           {Quantity::kTokenRate, "tokens/s"},
                           {Quantity::kTokenRate, "tokens/second"},
                           {Quantity::kRequestRate, "requests/sec"},
                           {Quantity::kRequestRate, "requests/s"},
                           {Quantity::kRequestRate, "requests/second"}};

}  // namespace

std::optional<double> FactorOfUnit(Quantity quantity, std::string_view unit) {
  const auto* const found = std::ranges::find_if(kUnits, [&](const Unit& known) {
    return known.quantity == quantity && EqualsIgnoringCase(known.name, unit);
  });
  return found == std::end(kUnits) ? std::nullopt : std::optional(found->factor);
}

std::string_view UnitsAllowed(Quantity quantity) {
  switch (quantity) {
    case Quantity::kTime:
      return "ns, us, ms, s, sec, seconds";
    case Quantity::kTokens:
      return "tokens";
    case Quantity::kRequests:
      return "requests";
    case Quantity::kTokenRate:
      return "tokens/sec";
    default:
      return "requests/sec";
  }
}

}  // namespace twin
