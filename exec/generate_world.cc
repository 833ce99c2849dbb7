#include "exec/generate_world.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "core/check.h"
#include "core/input_error.h"

namespace twin::exec {
namespace {

constexpr Duration kTimeOfStep{1'000'000};
// A policy may wait for time to pass, but not for ever.
constexpr std::int64_t kIdleInstantsMost = 10'000'000;

const char* WhyRejected(RejectReason reason) {
  switch (reason) {
    case RejectReason::kTooLongForModel:
      return "longer than the policy's limit";
    case RejectReason::kTooLargeForCache:
      return "larger than the whole KV cache; allow more blocks";
    case RejectReason::kOverloaded:
      return "beyond the policy's limit of requests in the system; allow more";
  }
  CHECK(false);
}

}  // namespace

GenerateWorld::GenerateWorld(Backend& backend, std::span<Generation> generations,
                             GenerateWorldOptions options)
    : backend_(backend),
      generations_(generations),
      options_(std::move(options)),
      ledger_(options_.end_tokens, options_.named_block_size) {}

Instant GenerateWorld::Advance(TimePoint /*wake_at*/) {
  events_.clear();
  if (!announced_) {
    announced_ = true;
    Announce();
    return {now_, events_};
  }
  now_ += kTimeOfStep;
  if (!in_flight_.empty()) {
    idle_instants_ = 0;
    Return();
  } else if (ledger_.open() > 0) {
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
    backend_.Open(id, generation.prompt, generation.sampling);
    ledger_.Open(id, generation.prompt,
                 {.tokens_max = generation.tokens_max, .heeds_end_tokens = true}, prompt_keys_[i]);
    events_.emplace_back(
        RequestArrived{{.id = id,
                        .arrival = now_,
                        .prompt_tokens = static_cast<std::int32_t>(generation.prompt.size()),
                        .max_output_tokens = generation.tokens_max,
                        .prefix_keys = prompt_keys_[i]}});
  }
}

void GenerateWorld::Launch(const StepPlan& plan) {
  if (!plan.rejected.empty()) {
    const Rejection& rejection = plan.rejected.front();
    throw InputError(InputError::Kind::kData,
                     fmt::format("prompt number {}", Index(rejection.request)),
                     WhyRejected(rejection.reason));
  }
  Count(plan);
  backend_.Launch(plan);
  in_flight_.PushBack({plan.id, now_});
}

void GenerateWorld::Return() {
  const StepInFlight step = in_flight_.PopFront();
  const ComputedStep computed = backend_.Collect();
  if (options_.keep != KeptLogits::kNone) {
    for (const LogitRow& row : computed.logits) Keep(row);
  }
  outcomes_.clear();
  filled_.clear();
  const ItemDrafts* drafts = computed.drafts.data();
  std::span<const kernels::TokenLogprob> logprobs = computed.logprobs;
  for (std::size_t i = 0; i < computed.sampled.size();) {
    const RequestId request = computed.sampled[i].request;
    const std::size_t outcome = outcomes_.size();
    std::int32_t taken = 0;
    for (; i < computed.sampled.size() && computed.sampled[i].request == request; ++i) {
      const SampledToken& token = computed.sampled[i];
      const auto own = TakeLogprobs(token, logprobs);
      const TokenFate fate = ledger_.Take(token, outcomes_, filled_);
      if (fate != TokenFate::kTaken && fate != TokenFate::kLast) continue;
      Generation& generation = generations_[Index(request)];
      generation.output.push_back(token.token);
      if (!own.empty()) generation.logprobs.emplace_back(own.begin(), own.end());
      ++taken;
    }
    if (computed.drafts.empty()) continue;
    if (taken > 0) OutputLedger::Join(*drafts, taken, outcome, outcomes_);
    ++drafts;
  }
  events_.emplace_back(StepFinished{step.id, step.started, outcomes_, filled_});
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

}  // namespace twin::exec
