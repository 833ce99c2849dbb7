// ServeGen's clients (arXiv:2505.09999): requests drawn from measured arrival and length windows.
#pragma once

#include <cstdint>
#include <memory>

#include "traces/request_rules.h"
#include "traces/request_stream.h"
#include "traces/workload.h"

namespace twin {

// The arrival file has the columns client, window_start_s, rate_rps, iat_cv, dist, shape, scale_s;
// windows last 600 s and are sorted by start. The length file has client, window_start_s, field,
// q0 ... q100.
//
// In a window, a client sends rate * 600 s requests; the fraction is rounded at random. The gaps
// between them and the gap to the window's end are drawn from the client's distribution, then
// rescaled to fill the window: the measured rate is met even if the distribution has a heavy tail.
// Lengths come from the client's latest length window that has begun, or from its first one. The
// prompt is input_tokens, or text_tokens plus count * tokens of images, audio and video; lengths
// below 1 become 1. Each client is a tenant.
//
// Memory: one state per client, and the length file. Arrivals are read window by window. Each gap
// is drawn twice: once for the sum of the window, once for the arrival.
std::unique_ptr<RequestStream> OpenServeGen(const ServeGenConfig& config, const RequestRules& rules,
                                            std::uint64_t seed);

}  // namespace twin
