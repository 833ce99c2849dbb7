// A request as the scheduler sees it: everything except its true output length.
#pragma once

#include <cstdint>
#include <span>

#include "core/ids.h"
#include "core/time.h"

namespace twin {

struct Request {
  RequestId id{};
  TimePoint arrival;
  std::int32_t prompt_tokens = 0;      // >= 1
  std::int32_t max_output_tokens = 0;  // >= 1
  std::int32_t priority = 0;           // smaller = more important
  std::uint32_t tenant = 0;
  std::uint64_t session = 0;  // requests of one conversation share it; 0 = none. For routers
  bool ignore_eos = false;    // only max_output_tokens ends its output
  std::int32_t predicted_output_tokens = -1;  // by the workload's predictor; -1 = no prediction
  // Ends here with its first token: another replica decodes it (Engine::handovers). Clusters set
  // it.
  bool prefill_only = false;
  // Keys of the prompt's prefixes: of its full blocks, in order, or of parts of them
  // (KvPoolConfig::key_tokens); empty if the content is unknown. Borrowed for the duration of the
  // call.
  std::span<const BlockKey> prefix_keys = {};
};

}  // namespace twin
