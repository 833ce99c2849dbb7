// A world in which all requests arrive at the start and a model computes every step.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/ring_queue.h"
#include "exec/backend.h"
#include "exec/output_ledger.h"
#include "sched/world.h"

namespace twin::exec {

// One prompt and its output.
struct Generation {
  std::vector<std::int32_t> prompt;
  std::int32_t tokens_max = 0;  // of output
  kernels::SamplingParameters sampling = {};
  std::vector<std::int32_t> output = {};
  std::vector<std::vector<kernels::TokenLogprob>> logprobs = {};  // by output token, if asked for
  std::vector<float> last_logits = {};                            // after the last prompt token
  std::vector<std::vector<float>> all_logits = {};                // after each prompt token
};

enum class KeptLogits : std::uint8_t { kNone, kLast, kAll };

struct GenerateWorldOptions {
  KeptLogits keep = KeptLogits::kNone;
  std::vector<std::int32_t> end_tokens;  // each of them ends an output
  std::int32_t named_block_size = 0;     // as in RealWorldOptions
  std::function<void()> on_step = {};    // called after every step, if set
};

// Counts over a run.
struct GenerationCounts {
  std::int64_t steps = 0;
  std::int64_t preemptions = 0;
  std::int64_t swapped_blocks = 0;  // both ways
  std::int64_t cached_tokens = 0;   // found in the prefix cache
};

// Time counts the steps returned, one unit for each; an instant waits for the oldest step in
// flight. Request i is generations[i].
class GenerateWorld final : public World {
 public:
  // Borrows the backend and the generations for its lifetime. REQUIRES: the backend has no open
  // request; it returns the logits of all prompt rows for KeptLogits::kAll, and of emitting rows
  // for kLast.
  GenerateWorld(Backend& backend, std::span<Generation> generations, GenerateWorldOptions options);

  Instant Advance(TimePoint wake_at) override;
  // Throws InputError (data) naming the prompt if the policy rejects it.
  void Launch(const StepPlan& plan) override;

  [[nodiscard]] const GenerationCounts& counts() const { return counts_; }

 private:
  struct StepInFlight {
    StepId id{};
    TimePoint started;
  };

  void Announce();
  // Waits for the oldest step in flight.
  void Return();
  void Count(const StepPlan& plan);
  void Keep(const LogitRow& row);

  Backend& backend_;
  std::span<Generation> generations_;
  GenerateWorldOptions options_;
  OutputLedger ledger_;
  GenerationCounts counts_;
  std::int64_t idle_instants_ = 0;
  TimePoint now_ = kTimeZero;
  bool announced_ = false;
  RingQueue<StepInFlight> in_flight_;
  // Events of the current instant.
  std::vector<ItemOutcome> outcomes_;
  std::vector<BlockFilled> filled_;
  std::vector<Event> events_;
  std::vector<std::vector<BlockKey>> prompt_keys_;
};

}  // namespace twin::exec
