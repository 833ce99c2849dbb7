// Routers: which replica of a cluster gets a request, decided once, when it arrives.
//
// A router sees the request as a scheduler does, never its true output length, and the load of the
// replicas as far as it knows it (telemetry.h). It is pure, as policies are: equal calls give equal
// choices. Ties go to the replica with the lowest index unless a router says otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/time.h"
#include "sched/request.h"
#include "sched/route/router_config.h"

namespace twin {

// A router's knowledge of its replicas: one value per replica.
struct ReplicaLoads {
  std::vector<std::int32_t> requests;       // sent, and not known to have left
  std::vector<std::int64_t> prompt_tokens;  // of them, not known to be computed
  std::vector<std::int32_t> unanswered;     // of them, not known to have emitted a token
  // KV blocks held or reserved at the replica's latest report, plus the blocks of the prompts sent
  // since. Only for routers with reads_blocks().
  std::vector<std::int64_t> blocks;
};

class Router {
 public:
  virtual ~Router() = default;

  // The index of a replica. REQUIRES: `now` never decreases.
  virtual std::int32_t Choose(const Request& request, TimePoint now, const ReplicaLoads& loads) = 0;

  // Whether the choice depends on loads, and on their blocks. Loads that no router reads are not
  // counted.
  [[nodiscard]] virtual bool reads_loads() const { return false; }
  [[nodiscard]] virtual bool reads_blocks() const { return false; }
  // Whether the choice depends on the keys of the prompt.
  [[nodiscard]] virtual bool reads_prefixes() const { return false; }
};

// `keys_per_block`: of the replicas' pools (KvPoolConfig); routers compare whole blocks. `seed`: of
// the run; routers draw from a stream of their own. REQUIRES: replicas >= 1, block_size >= 1.
std::unique_ptr<Router> MakeRouter(const RouterConfig& config, std::int32_t replicas,
                                   std::int32_t block_size, std::uint64_t seed,
                                   std::int32_t keys_per_block = 1);

// Whether routers of this kind need the keys of prompts, which exist if the policy caches prefixes.
// SESSION_HASH reads them too, but can do without: sessions or ids decide then.
bool NeedsCachedPrefixes(RouterKind kind);

}  // namespace twin
