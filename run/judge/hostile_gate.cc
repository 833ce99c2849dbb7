#include "run/judge/hostile_gate.h"

#include <fmt/format.h>

#include <array>
#include <exception>
#include <memory>

#include "core/random.h"
#include "run/hostile/hostile_run.h"
#include "sched/engine.h"

namespace twin::run {
namespace {

struct HostileSystem {
  HostileOptions world;
  EngineConfig engine;
};

// A pool of a few blocks, and requests of which some do not fit in it.
HostileSystem Draw(const PolicyTraits& traits, std::uint64_t seed, bool silent_ends) {
  Random random(seed, "hostile gate");
  HostileSystem system;
  HostileOptions& world = system.world;
  constexpr std::array<std::int32_t, 6> kBlockSizes = {1, 2, 3, 4, 8, 16};
  world.seed = seed;
  world.block_size = world.key_tokens =
      kBlockSizes[static_cast<std::size_t>(random.UniformInt(0, 5))];
  world.blocks = static_cast<std::int32_t>(random.UniformInt(4, 24));
  if (world.block_size == 1) world.blocks += 20;
  world.requests_max = random.UnitReal() < 0.3 ? 4 : 25;
  if (traits.swaps_to_host) {
    world.host_blocks = static_cast<std::int32_t>(random.UniformInt(0, 2L * world.blocks));
  }
  world.shares_prefixes = traits.caches_prefixes;
  world.priorities = random.UnitReal() < 0.5;
  world.forgets_stale_tokens = traits.forgets_stale_tokens;
  world.silent_ends = silent_ends;
  // The engine keeps requests away from policies that no server would accept.
  world.oversized = false;
  world.context_tokens = world.blocks * world.block_size;
  system.engine.kv = {.block_size = world.block_size,
                      .blocks = world.blocks,
                      .host_blocks = world.host_blocks,
                      .release_order = traits.release_order};
  system.engine.checks_rejections = true;
  return system;
}

}  // namespace

std::int32_t ServeHostileWorlds(PolicyHost& host, const HostileGate& gate, RunControl& control) {
  const std::int32_t worlds = gate.worlds;
  std::int32_t i = 0;
  for (; i < worlds && host.planned_s() < gate.planning_s && !control.StopRequested(); ++i) {
    const HostileSystem system =
        Draw(host.traits(), gate.seed + static_cast<std::uint64_t>(i), gate.silent_ends);
    try {
      // The worlds have nothing to hide, and processes cost more than they do.
      RunObserver& tap = host.BeginRun({}, false);
      Engine engine(system.engine, host.policy()->make(system.engine.kv));
      RunHostile(system.world, engine, tap);
    } catch (const std::exception&) {
      const CandidateFailure failure = FailureBeingHandled();
      throw CandidateFailure(
          failure.kind(), fmt::format("hostile world {} of {}: {}", i + 1, worlds, failure.what()));
    }
    control.OnProgress("hostile worlds", static_cast<std::uint64_t>(i) + 1,
                       static_cast<std::uint64_t>(worlds));
  }
  control.OnProgressEnd();
  return i;
}

}  // namespace twin::run
