#include "exec/generate_world.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/hash.h"
#include "core/input_error.h"

namespace twin::exec {
namespace {

constexpr Duration kStep{1'000'000};
// A policy may wait for time to pass, but not for ever.
constexpr std::int64_t kIdleInstantsMost = 10'000'000;

}  // namespace

GenerateWorld::GenerateWorld(CpuExecutor& executor, std::span<Generation> generations,
                             GenerateWorldOptions options)
    : executor_(executor),
      generations_(generations),
      options_(std::move(options)),
      names_(generations.size()),
      finished_(generations.size(), false),
      unfinished_(generations.size()) {}

Instant GenerateWorld::Advance() {
  events_.clear();
  if (!announced_) {
    announced_ = true;
    Announce();
    return {now_, events_};
  }
  now_ += kStep;
  if (!returning_.empty()) {
    idle_instants_ = 0;
    told_ = returning_.PopFront();
    events_.emplace_back(StepFinished{told_.id, told_.started, told_.outcomes, told_.filled});
  } else if (unfinished_ > 0) {
    ++idle_instants_;
    CHECK(idle_instants_ < kIdleInstantsMost);
    events_.emplace_back(WakeUp{});
  }
  return {now_, events_};
}

void GenerateWorld::Announce() {
  prompt_keys_.resize(generations_.size());
  for (std::size_t i = 0; i < generations_.size(); ++i) {
    const Generation& generation = generations_[i];
    const RequestId id{static_cast<std::uint32_t>(i)};
    executor_.Open(id, generation.prompt, {});
    if (options_.names_blocks) {
      for (const std::int32_t token : generation.prompt) {
        if (Append(names_[i], token)) prompt_keys_[i].push_back(SharedKey(names_[i].chain));
      }
    }
    events_.emplace_back(
        RequestArrived{{.id = id,
                        .arrival = now_,
                        .prompt_tokens = static_cast<std::int32_t>(generation.prompt.size()),
                        .max_output_tokens = generation.tokens_max,
                        .prefix_keys = prompt_keys_[i]}});
  }
}

bool GenerateWorld::Append(BlockNames& names, std::int32_t token) const {
  names.chain = MixWords(names.chain, static_cast<std::uint64_t>(token) + 1);
  if (++names.open_tokens < options_.block_size) return false;
  names.open_tokens = 0;
  return true;
}

void GenerateWorld::Launch(const StepPlan& plan) {
  if (!plan.rejected.empty()) {
    const Rejection& rejection = plan.rejected.front();
    const bool too_long = rejection.reason == RejectReason::kTooLongForModel;
    throw InputError(InputError::Kind::kData,
                     "prompt number " + std::to_string(Index(rejection.request)),
                     too_long ? "longer than the policy's limit"
                              : "larger than the whole KV cache; allow more blocks");
  }
  Count(plan);
  ReturningStep step{plan.id, now_, {}, {}};
  const std::span<const SampledToken> sampled = executor_.Execute(plan);
  if (options_.keep != KeptLogits::kNone) {
    for (const LogitRow& row : executor_.logits()) Keep(row);
  }
  for (const SampledToken& token : sampled) Emit(token, step);
  returning_.PushBack(std::move(step));
  if (options_.on_step) options_.on_step();
}

void GenerateWorld::Count(const StepPlan& plan) {
  ++counts_.steps;
  counts_.preemptions += static_cast<std::int64_t>(plan.preempted.size());
  for (const PrefixHit& hit : plan.hits) counts_.cached_tokens += hit.tokens;
  for (const KvOperation& operation : plan.kv) {
    const bool swaps = operation.kind == KvOperation::Kind::kSwapOut ||
                       operation.kind == KvOperation::Kind::kSwapIn;
    if (swaps) ++counts_.swapped_blocks;
  }
}

void GenerateWorld::Keep(const LogitRow& row) {
  Generation& generation = generations_[Index(row.request)];
  const auto position = static_cast<std::size_t>(row.position);
  if (position >= generation.prompt.size()) return;
  if (options_.keep == KeptLogits::kAll) {
    generation.all_logits.resize(generation.prompt.size());
    generation.all_logits[position].assign(row.logits.begin(), row.logits.end());
  }
  if (position + 1 == generation.prompt.size()) {
    generation.last_logits.assign(row.logits.begin(), row.logits.end());
  }
}

void GenerateWorld::Emit(const SampledToken& sampled, ReturningStep& step) {
  const std::uint32_t index = Index(sampled.request);
  if (finished_[index]) return;  // issued before its end was known
  if (!sampled.fresh) {
    step.outcomes.push_back({sampled.request, 0, FinishReason::kNone});
    return;
  }
  Generation& generation = generations_[index];
  generation.output.push_back(sampled.token);
  if (options_.names_blocks && Append(names_[index], sampled.token)) {
    step.filled.push_back({sampled.request, SharedKey(names_[index].chain)});
  }
  const bool stops = std::find(options_.end_tokens.begin(), options_.end_tokens.end(),
                               sampled.token) != options_.end_tokens.end();
  const bool at_limit = generation.output.size() == static_cast<std::size_t>(generation.tokens_max);
  if (!stops && !at_limit) return;
  finished_[index] = true;
  --unfinished_;
  step.outcomes.push_back(
      {sampled.request, 1, stops ? FinishReason::kStop : FinishReason::kLength});
}

}  // namespace twin::exec
