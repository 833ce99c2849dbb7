#include "sched/route/mixed_pools.h"

#include <cstddef>
#include <utility>

namespace twin {

void MixedPools::Load::Add(const Load& change, std::int32_t sign) {
  prompt_tokens += sign * change.prompt_tokens;
  prompts += sign * change.prompts;
  queued += sign * change.queued;
  decodes += sign * change.decodes;
  blocks += sign * change.blocks;
}

MixedPools::MixedPools(const MixedPoolConfig& config, std::int32_t prompt_replicas,
                       const std::vector<std::int32_t>& blocks, std::int32_t block_size,
                       Duration delay)
    : config_(config), block_size_(block_size), news_(delay) {
  for (const std::int32_t of_replica : blocks) {
    const bool prompt = replicas_.size() < static_cast<std::size_t>(prompt_replicas);
    const Place home = prompt ? Place::kPrompt : Place::kToken;
    replicas_.push_back({.home = home, .place = home, .blocks = of_replica, .load = {}});
  }
}

ReplicaPair MixedPools::Choose(TimePoint now, const Request& request) {
  Receive(now);
  SendHome();
  const std::int64_t prompt_blocks = BlocksFor(request.prompt_tokens);
  const std::int64_t all_blocks =
      BlocksFor(std::int64_t{request.prompt_tokens} + request.max_output_tokens);
  Booking& booking = bookings_.Open(request.id);
  booking = {};
  booking.pair = ChoosePair(request, all_blocks);
  const bool together = booking.pair.prefill == booking.pair.decode;
  booking.prefill = {.prompt_tokens = request.prompt_tokens,
                     .prompts = 1,
                     .queued = 1,
                     .blocks = together ? 0 : prompt_blocks};
  booking.decode = {.decodes = 1, .blocks = all_blocks};
  replicas_[static_cast<std::size_t>(booking.pair.prefill)].load.Add(booking.prefill, 1);
  replicas_[static_cast<std::size_t>(booking.pair.decode)].load.Add(booking.decode, 1);
  return booking.pair;
}

ReplicaPair MixedPools::ChoosePair(const Request& request, std::int64_t blocks) {
  std::optional<std::int32_t> prompt = FindPrompt(Place::kPrompt, request.prompt_tokens);
  if (!prompt) prompt = FindPrompt(Place::kMixed, request.prompt_tokens);
  std::optional<std::int32_t> decode = FindDecode(Place::kToken, blocks);
  if (!decode) decode = FindDecode(Place::kMixed, blocks);
  const auto pending = [](const Replica& replica) { return replica.load.pending_tokens(); };
  if (!prompt) {
    prompt = Least(Place::kToken, pending);
    MoveToMixed(prompt);
  }
  if (!decode) {
    decode = Least(Place::kPrompt, [](const Replica& replica) { return replica.load.blocks; });
    MoveToMixed(decode);
  }
  if (!prompt || !decode) prompt = decode = Least(std::nullopt, pending);
  // A request of one token needs no decoding: the prompt brings the token.
  if (request.max_output_tokens == 1) decode = prompt;
  return {.prefill = *prompt, .decode = *decode};
}

template <class LoadOf>
std::optional<std::int32_t> MixedPools::Least(std::optional<Place> pool, LoadOf load_of) const {
  std::optional<std::int32_t> least;
  std::int64_t least_load = 0;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    if (pool && replicas_[i].place != *pool) continue;
    const std::int64_t load = load_of(replicas_[i]);
    if (least && load >= least_load) continue;
    least = static_cast<std::int32_t>(i);
    least_load = load;
  }
  return least;
}

std::optional<std::int32_t> MixedPools::FindPrompt(Place pool, std::int64_t tokens) const {
  const std::optional<std::int32_t> best =
      Least(pool, [](const Replica& replica) { return replica.load.pending_tokens(); });
  if (!best) return std::nullopt;
  const Load& load = replicas_[static_cast<std::size_t>(*best)].load;
  const bool is_long =
      load.queued > 0 && load.pending_tokens() + tokens > config_.prompt_max_pending_batch_tokens;
  return is_long ? std::nullopt : best;
}

std::optional<std::int32_t> MixedPools::FindDecode(Place pool, std::int64_t blocks) const {
  const std::optional<std::int32_t> best =
      Least(pool, [](const Replica& replica) { return replica.load.blocks; });
  if (!best) return std::nullopt;
  const Replica& replica = replicas_[static_cast<std::size_t>(*best)];
  return replica.load.blocks + blocks > replica.blocks ? std::nullopt : best;
}

void MixedPools::MoveToMixed(std::optional<std::int32_t> replica) {
  if (replica) replicas_[static_cast<std::size_t>(*replica)].place = Place::kMixed;
}

void MixedPools::SendHome() {
  for (Replica& replica : replicas_) {
    const bool prompt = replica.home == Place::kPrompt;
    const std::int32_t foreign = prompt ? replica.load.decodes : replica.load.prompts;
    if (foreign == 0) replica.place = replica.home;
  }
}

void MixedPools::Receive(TimePoint now) {
  news_.Receive(now, [this](const Change& change) {
    replicas_[static_cast<std::size_t>(change.replica)].load.Add(change.left, -1);
  });
}

void MixedPools::Report(TimePoint now, std::int32_t replica, const Load& left) {
  news_.Send(now, {replica, left});
}

void MixedPools::OnPromptBegun(TimePoint now, RequestId id) {
  Booking* const booking = bookings_.Find(id);
  if (booking == nullptr || booking->prefill.queued == 0) return;
  booking->prefill.queued = 0;
  Report(now, booking->pair.prefill, {.queued = 1});
}

void MixedPools::OnPromptComputed(TimePoint now, RequestId id) {
  Booking* const booking = bookings_.Find(id);
  if (booking == nullptr || booking->prefill.prompts == 0) return;
  Load left = std::exchange(booking->prefill, {.blocks = booking->prefill.blocks});
  left.blocks = 0;
  Report(now, booking->pair.prefill, left);
}

void MixedPools::OnPromptReleased(TimePoint now, RequestId id) {
  Booking* const booking = bookings_.Find(id);
  if (booking == nullptr || booking->prefill.blocks == 0) return;
  Report(now, booking->pair.prefill, {.blocks = std::exchange(booking->prefill.blocks, 0)});
}

// A transfer that is under way may keep blocks of a request that was cancelled a little longer.
void MixedPools::OnLeft(TimePoint now, RequestId id) {
  const Booking* const booking = bookings_.Find(id);
  if (booking == nullptr) return;
  Report(now, booking->pair.prefill, booking->prefill);
  Report(now, booking->pair.decode, booking->decode);
  bookings_.Close(id);
}

}  // namespace twin
