// Limits of the requests of a trace, and the checks that its readers share.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/files/field.h"
#include "core/files/line_reader.h"
#include "core/time.h"
#include "core/traced_request.h"

namespace twin {

// The longest prompt or output, in tokens; the sum of both fits into 32 bits.
constexpr std::int32_t kTokensMax = (1 << 30) - 1;

// The latest arrival, about 126 years; sums with other times fit into 64 bits.
constexpr Duration kArrivalMax{4'000'000'000'000'000'000};

// A length: 1..kTokensMax. Throws InputError.
inline std::int32_t ParseTokens(const Field& field) {
  return static_cast<std::int32_t>(ParseInteger(field, 1, kTokensMax));
}

// Checks that the arrivals of a trace never decrease.
class ArrivalOrder {
 public:
  // False if `arrival` is earlier than an arrival before it.
  bool Accepts(TimePoint arrival) {
    if (arrival < last_) return false;
    last_ = arrival;
    return true;
  }

  // Throws InputError for the field of an arrival that was not accepted.
  [[noreturn]] void Refuse(const Field& field) const {
    field.lines.RefuseField(field.name, field.text,
                            fmt::format("nothing earlier than the row before, {} s after the "
                                        "trace's start",
                                        Seconds(last_)));
  }

 private:
  TimePoint last_ = kTimeZero;
};

// Throws InputError if a request has chunks but no chunk size, or more chunks than `tokens` need.
inline void CheckPrefixChunks(const LineReader& lines, std::string_view field,
                              const TracedRequest& request, std::int64_t tokens) {
  const std::int64_t chunk = request.prefix_chunk_tokens;
  const auto count = static_cast<std::int64_t>(request.prefix_chunks.size());
  if (count == 0) return;
  if (chunk < 1) lines.RefuseField("prefix_chunk_tokens", std::to_string(chunk), "at least 1");
  if (count > (tokens + chunk - 1) / chunk) {
    lines.RefuseField(field,
                      std::to_string(count) + " chunks of " + std::to_string(chunk) + " tokens",
                      "no more than " + std::to_string(tokens) + " tokens need");
  }
}

}  // namespace twin
