// ServeGen's clients (arXiv:2505.09999): requests drawn from measured arrival and length windows.
#pragma once

#include <cstdint>
#include <memory>

#include "traces/request_rules.h"
#include "traces/request_stream.h"
#include "traces/workload.h"

namespace twin {

struct ServeGenCounts {
  std::int64_t clients_without_lengths = 0;
  std::int64_t requests_borrowed = 0;  // with the lengths of another client
  std::int64_t requests_skipped = 0;   // for want of lengths
};

class ServeGenStream : public RequestStream {
 public:
  [[nodiscard]] virtual const ServeGenCounts& counts() const = 0;
};

// Files of the columns client, window_start_s, rate_rps, iat_cv, dist, shape, scale_s (windows of
// 600 s that do not fall) and client, window_start_s, field, q0 ... q100.
//
// Rules. A client sends rate * window requests in a window, a fraction by chance. Their gaps, and
// the one to the window's end, are drawn from its distribution and rescaled to fill the window, so
// the measured rate is met however heavy the tail. Lengths come from the client's latest length
// window that has begun (its first before that). The prompt is input_tokens, or text_tokens plus
// count * tokens of images, audio and video; lengths below 1 become 1. A client is a tenant.
//
// Memory: one state a client, and the length file. Arrivals are read window by window. Every gap
// is drawn twice, for the sum and for the arrival.
std::unique_ptr<ServeGenStream> OpenServeGen(const ServeGenConfig& config,
                                             const RequestRules& rules, std::uint64_t seed);

}  // namespace twin
