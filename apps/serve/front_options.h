// Settings that an operator of the serving front chooses.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "apps/serve/http/http_limits.h"
#include "core/time.h"

namespace twin::serve {

// Tokens of a stream that the socket has taken, in the order of the stream.
struct SentTokens {
  std::string_view request;        // its id, without the protocol's prefix
  std::span<const TimePoint> due;  // when the engine had each of them
  TimePoint sent = {};             // times are the service's
};

struct FrontOptions {
  HttpLimits http;
  std::string api_key;         // for all POST routes and /v1/; empty: none is needed
  std::string admin_key;       // for /v1/twinserve/record; empty: the route is closed
  bool guard_metrics = false;  // /metrics and the live page need api_key too
  int overload_status = 429;   // of a full queue; 503 as vLLM answers
  std::string version;         // of this program
  std::size_t threads = 2;     // of the connections
  // Called with the sent tokens of streams, on each of these threads; may be empty.
  std::function<void(const SentTokens&)> on_sent = nullptr;
};

}  // namespace twin::serve
