// What an operator of the serving front decides.
#pragma once

#include <string>

#include "front/http/http_limits.h"

namespace twin::front {

struct FrontOptions {
  HttpLimits http;
  std::string api_key;         // of all POST routes and /v1/; empty: everybody may
  std::string admin_key;       // of /v1/twinserve/record; empty: nobody may
  bool guard_metrics = false;  // /metrics and the live page need api_key too
  int overload_status = 429;   // of a full queue; 503 as vLLM answers
  std::string version;         // of this program
};

}  // namespace twin::front
