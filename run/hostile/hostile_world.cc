#include "run/hostile/hostile_world.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/hash.h"
#include "run/hostile/streak_plans.h"

namespace twin {
namespace {

// The totals of a plan, summed up from its work.
StepTotals TotalsOf(const StepPlan& plan) {
  StepTotals totals;
  for (const WorkItem& item : plan.work) {
    const std::int64_t end = item.start + item.tokens;
    totals.emitting_items += item.emits ? 1 : 0;
    totals.draft_items += item.drafts > 0 ? 1 : 0;
    totals.draft_tokens += item.drafts;
    totals.padding_tokens += item.padded_tokens > 0 ? item.padded_tokens - item.tokens : 0;
    if (item.phase == Phase::kDecode && item.tokens == 1) {
      ++totals.decode_items;
      totals.decode_context_tokens += end;
      totals.decode_context_max = std::max(totals.decode_context_max, end);
      continue;
    }
    ++totals.prefill_items;
    totals.prefill_tokens += item.tokens;
    totals.prefill_context_tokens += end;
    totals.prefill_context_max = std::max(totals.prefill_context_max, end);
    for (std::int64_t query = item.start + 1; query <= end; ++query) {
      totals.prefill_attention_pairs += query;
    }
  }
  // A finished row of a padded batch computes one token.
  totals.padding_tokens += static_cast<std::int64_t>(plan.padding_rows.size());
  return totals;
}

}  // namespace

HostileWorld::HostileWorld(const HostileOptions& options)
    : options_(options),
      random_(options.seed, "hostile world"),
      parts_random_(options.seed, "parts of streaks") {
  for (std::int32_t i = 0; i < options.replicas; ++i) {
    replicas_.push_back(
        {KvShadow(options.block_size, options.BlocksOf(i), options.host_blocks), {}, {}, {}});
    if (!options.kv_groups) continue;
    replicas_.back().group_shadow.emplace(*options.kv_groups, options.BlocksOf(i));
  }
  DrawScripts();
}

TimePoint HostileWorld::NextEvent() const {
  TimePoint next = kTimeNever;
  for (const Replica& replica : replicas_) {
    if (!replica.in_flight.empty()) next = std::min(next, replica.in_flight.front().ends);
  }
  for (const Copy& copy : copies_) next = std::min(next, copy.ends);
  if (next_arrival_ < scripts_.size()) next = std::min(next, scripts_[next_arrival_].arrival);
  if (next_departure_ < departures_.size()) {
    next = std::min(next, scripts_[Index(departures_[next_departure_])].cancelled);
  }
  return next;
}

bool HostileWorld::WakesEarly(TimePoint next) {
  if (wakes_early_) return *std::exchange(wakes_early_, std::nullopt);
  return next > Later(now_, 1) && random_.UnitReal() < 0.02;
}

Instant HostileWorld::Advance(TimePoint wake_at) {
  events_.clear();
  outcomes_.clear();
  filled_.clear();
  const TimePoint next = NextEvent();
  if (next == kTimeNever && wake_at == kTimeNever) return {now_, {}};
  const bool wakes_early = WakesEarly(std::min(next, wake_at));
  if (wakes_early) {
    now_ = Later(now_, 1);
  } else if (wake_at < next) {
    // As late as a real world may be, but not behind what happens next.
    const TimePoint late = Later(wake_at, random_.UnitReal() < 0.5 ? 0 : 1);
    now_ = std::max(now_, std::min(late, next));
  }
  if (wakes_early || (wake_at < next && now_ < next)) {
    events_.push_back(WakeUp{});
    return {now_, events_};
  }
  now_ = std::max(now_, next);
  FinishTransfers();
  for (Replica& replica : replicas_) FinishSteps(replica);
  while (next_departure_ < departures_.size() &&
         scripts_[Index(departures_[next_departure_])].cancelled <= now_) {
    Cancel(departures_[next_departure_++]);
  }
  while (next_arrival_ < scripts_.size() && scripts_[next_arrival_].arrival <= now_) {
    Announce(RequestId{static_cast<std::uint32_t>(next_arrival_++)});
  }
  return {now_, events_};
}

void HostileWorld::Continue(const StepPlan& latest, std::int64_t steps_max, StreakPart& part) {
  Replica& replica = replicas_.front();
  RingQueue<Flight>& in_flight = replica.in_flight;
  if (replicas_.size() > 1 || !replica.stale.empty()) return;
  latest_ = latest;
  for (std::int64_t i = 0; i < steps_max && parts_random_.UnitReal() > 0.1; ++i) {
    const Flight& oldest = in_flight.front();
    const TimePoint next = NextEvent();
    const bool alone = in_flight.size() < 2 || in_flight[1].ends > oldest.ends;
    if (next != oldest.ends || next <= now_ || !alone || SomebodyComesOrGoesAt(next)) return;
    if (!IsExpected(*oldest.plan)) return;
    wakes_early_ = WakesEarly(next);
    if (*wakes_early_) return;
    wakes_early_.reset();
    now_ = next;
    const Flight flight = in_flight.PopFront();
    std::vector<ItemOutcome> outcomes;
    for (const WorkItem& item : flight.plan->work) {
      EmitTokens(scripts_[Index(item.request)], item, 0, outcomes, part.filled);
    }
    if (!outcomes.empty()) Fail("a step of a streak has results that are not expected");
    if (options_.forgets_stale_tokens) {
      replica.stale.Returned();
      replica.stale.Launched(*flight.plan);
    }
    in_flight.PushBack(DrawFlight(*flight.plan, in_flight, {}));
    part.moments.push_back(
        {.now = now_, .started = flight.started, .filled_end = part.filled.size()});
  }
}

void HostileWorld::Continued(const StreakPart& part) {
  std::vector<StepPlan> plans = {latest_};
  AppendPlans(part, plans);
  for (std::size_t i = 1; i < plans.size(); ++i) Run(plans[i], {});
}

bool HostileWorld::SomebodyComesOrGoesAt(TimePoint time) const {
  return (next_arrival_ < scripts_.size() && scripts_[next_arrival_].arrival <= time) ||
         (next_departure_ < departures_.size() &&
          scripts_[Index(departures_[next_departure_])].cancelled <= time) ||
         !copies_.empty();
}

bool HostileWorld::IsExpected(const StepPlan& plan) const {
  return options_.drafts_max == 0 && std::ranges::all_of(plan.work, [&](const WorkItem& item) {
           const Script& script = scripts_[Index(item.request)];
           return item.emits && script.fate == Fate::kLive &&
                  script.emitted + 1 < script.output_tokens &&
                  script.prompt_tokens + script.emitted + 1 < options_.context_tokens;
         });
}

void HostileWorld::Run(const StepPlan& plan, const std::vector<std::int32_t>& accepted) {
  if (plan.totals != TotalsOf(plan)) Fail("the totals are not those of the work");
  CheckRequests(plan);
  Replica& replica = replicas_.at(static_cast<std::size_t>(plan.replica));
  const auto word = [this](RequestId id, std::int32_t at) { return Word(id, at); };
  const std::string fault = replica.group_shadow ? replica.group_shadow->Execute(plan, word)
                                                 : Execute(replica.shadow, plan, accepted);
  if (!fault.empty()) Fail(fault);
}

HostileWorld::Flight HostileWorld::DrawFlight(const StepPlan& plan,
                                              const RingQueue<Flight>& in_flight,
                                              std::vector<std::int32_t> accepted) {
  const TimePoint begins = in_flight.empty() ? now_ : std::max(now_, in_flight.back().ends);
  const double kind = random_.UnitReal();
  const std::int64_t ticks =
      kind < 0.1 ? 0 : (kind < 0.9 ? random_.UniformInt(1, 4) : random_.UniformInt(5, 60));
  return {&plan, begins, Later(begins, ticks), std::move(accepted)};
}

void HostileWorld::Launch(const StepPlan& plan) {
  for (const Rejection& rejection : plan.rejected) {
    Script& script = scripts_.at(Index(rejection.request));
    if (script.fate != Fate::kLive) Fail("a request that is gone was rejected");
    Turn(script, Fate::kRejected);
  }
  Replica& replica = replicas_.at(static_cast<std::size_t>(plan.replica));
  std::vector<std::int32_t> accepted;
  for (const WorkItem& item : plan.work) {
    if (plan.totals.draft_items == 0) break;
    const std::int64_t most = item.phase == Phase::kDecode ? item.drafts : 0;
    accepted.push_back(static_cast<std::int32_t>(random_.UniformInt(0, most)));
  }
  Run(plan, accepted);
  replica.in_flight.PushBack(DrawFlight(plan, replica.in_flight, std::move(accepted)));
  if (options_.forgets_stale_tokens) replica.stale.Launched(plan);
}

void HostileWorld::Transfer(const KvTransfer& transfer) {
  const bool decodes = options_.mixes_phases || !prefills(transfer.to);
  const bool elsewhere = transfer.from != transfer.to;
  if (!prefills(transfer.from) || !decodes || !elsewhere) Fail("a transfer takes the wrong way");
  if (scripts_.at(Index(transfer.request)).fate != Fate::kLive) Fail("a transfer of a request");
  if (transfer.source.size() != transfer.target.size()) Fail("a transfer of unequal blocks");
  replicas_.at(static_cast<std::size_t>(transfer.from)).shadow.BeginSending(transfer);
  KvShadow& target = replicas_.at(static_cast<std::size_t>(transfer.to)).shadow;
  if (std::string fault = target.BeginReceiving(transfer); !fault.empty()) Fail(fault);
  const std::int64_t ticks =
      random_.UnitReal() < 0.2 ? 0 : random_.UniformInt(1, random_.UnitReal() < 0.8 ? 8 : 90);
  copies_.push_back({transfer, now_, Later(now_, ticks)});
}

void HostileWorld::FinishTransfers() {
  const auto ended = [&](const Copy& copy) {
    if (copy.ends > now_) return false;
    const KvTransfer& t = copy.transfer;
    Replica& from = replicas_[static_cast<std::size_t>(t.from)];
    Replica& to = replicas_[static_cast<std::size_t>(t.to)];
    const auto word = [this](RequestId id, std::int32_t at) { return Word(id, at); };
    if (std::string fault = from.shadow.EndTransfer(t, to.shadow, word); !fault.empty()) {
      Fail(fault);
    }
    events_.push_back(TransferFinished{t.request, t.from, t.to, copy.started});
    return true;
  };
  std::erase_if(copies_, ended);
}

std::uint64_t HostileWorld::Word(RequestId id, std::int32_t position) const {
  return scripts_[Index(id)].content.at(static_cast<std::size_t>(position));
}

void HostileWorld::CheckRequests(const StepPlan& plan) {
  for (const WorkItem& item : plan.work) {
    Script& script = scripts_.at(Index(item.request));
    if (script.fate == Fate::kAhead) Fail("work for a request that has not arrived");
    if (script.fate == Fate::kRejected) Fail("work for a request that was rejected");
    if (script.replica < 0) script.replica = plan.replica;
    const bool decodes = options_.mixes_phases || !prefills(plan.replica);
    const bool moves = script.replica != plan.replica && prefills(script.replica) && decodes;
    if (moves && !script.moved) {
      script.moved = true;
      script.replica = plan.replica;
    }
    if (script.replica != plan.replica) Fail("a request is worked on by two replicas");
  }
}

// Drafts that will be rejected are tokens of no request.
std::string HostileWorld::Execute(KvShadow& shadow, const StepPlan& plan,
                                  const std::vector<std::int32_t>& accepted) {
  // Where drafts are assumed, items start behind those that were rejected meanwhile.
  if (options_.assumes_drafts) return shadow.Cover(plan);
  std::unordered_map<std::uint32_t, std::int32_t> right;  // tokens, by request with drafts
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    const WorkItem& item = plan.work[i];
    if (item.drafts == 0) continue;
    right[Index(item.request)] = item.start + item.tokens - item.drafts + accepted[i];
  }
  return shadow.Execute(plan, [&](RequestId id, std::int32_t position) {
    const auto limit = right.find(Index(id));
    if (limit != right.end() && position >= limit->second) return std::uint64_t{0};
    const std::vector<std::uint64_t>& content = scripts_[Index(id)].content;
    // An accepted draft behind the end of the output.
    const auto index = static_cast<std::size_t>(position);
    return limit != right.end() && index >= content.size() ? 0 : content.at(index);
  });
}

void HostileWorld::DrawScripts() {
  const auto requests = static_cast<std::size_t>(random_.UniformInt(1, options_.requests_max));
  counts_[static_cast<std::size_t>(Fate::kAhead)] = static_cast<std::int32_t>(requests);
  TimePoint arrival = kTimeZero;
  const bool crowded = random_.UnitReal() < 0.5;
  for (std::size_t i = 0; i < requests; ++i) {
    const double kind = random_.UnitReal();
    if (kind > (crowded ? 0.7 : 0.3)) arrival = Later(arrival, random_.UniformInt(1, 6));
    if (kind > 0.97) arrival = Later(arrival, random_.UniformInt(20, 300));
    scripts_.push_back(DrawScript(i, arrival));
    if (scripts_.back().cancelled != kTimeNever) {
      departures_.push_back(RequestId{static_cast<std::uint32_t>(i)});
    }
  }
  std::stable_sort(departures_.begin(), departures_.end(), [this](RequestId a, RequestId b) {
    return scripts_[Index(a)].cancelled < scripts_[Index(b)].cancelled;
  });
}

HostileWorld::Script HostileWorld::DrawScript(std::size_t index, TimePoint arrival) {
  Script script;
  script.arrival = arrival;
  script.prompt_tokens = DrawPrompt();
  script.max_output_tokens = static_cast<std::int32_t>(
      random_.UnitReal() < 0.2 ? random_.UniformInt(1, 2) : random_.UniformInt(1, 24));
  script.output_tokens = script.max_output_tokens;
  if (random_.UnitReal() < 0.4) {
    script.output_tokens = static_cast<std::int32_t>(random_.UniformInt(1, script.output_tokens));
    script.stops_silently = random_.UnitReal() < 0.2 && options_.silent_ends;
  }
  if (options_.priorities) {
    script.priority = static_cast<std::int32_t>(random_.UniformInt(-1, 2));
  }
  DrawContent(index, script);
  DrawDeparture(script);
  return script;
}

std::int32_t HostileWorld::DrawPrompt() {
  const std::int64_t pool = std::int64_t{options_.blocks} * options_.block_size;
  const double kind = random_.UnitReal();
  std::int64_t tokens = random_.UniformInt(1, std::max<std::int64_t>(1, pool / 4));
  if (kind < 0.2) tokens = random_.UniformInt(1, 3);
  if (kind > 0.9) tokens = random_.UniformInt(1, pool);
  if (options_.oversized && kind > 0.97) {
    const std::int64_t limit = std::min<std::int64_t>(pool, options_.context_tokens);
    tokens = random_.UniformInt(std::max<std::int64_t>(1, limit - 2), pool + 3);
  } else if (!options_.oversized) {
    tokens = std::min<std::int64_t>(tokens, options_.context_tokens - 1);
  }
  return static_cast<std::int32_t>(tokens);
}

// Some prompts begin with all or part of what an earlier request was told and has answered.
void HostileWorld::DrawContent(std::size_t index, Script& script) {
  const auto length = static_cast<std::size_t>(script.prompt_tokens) +
                      static_cast<std::size_t>(script.max_output_tokens);
  for (std::size_t i = 0; i < length; ++i) script.content.push_back(MixWords(index + 1, i));
  if (!options_.shares_prefixes) return;
  if (index > 0 && random_.UnitReal() < 0.7) {
    const auto parent =
        static_cast<std::size_t>(random_.UniformInt(0, static_cast<std::int64_t>(index) - 1));
    const std::vector<std::uint64_t>& said = scripts_[parent].content;
    const std::size_t most = std::min(said.size(), static_cast<std::size_t>(script.prompt_tokens));
    const auto shared = static_cast<std::size_t>(
        random_.UnitReal() < 0.5 ? static_cast<std::int64_t>(most)
                                 : random_.UniformInt(0, static_cast<std::int64_t>(most)));
    std::copy_n(said.begin(), shared, script.content.begin());
  }
  std::uint64_t key = 0;
  for (std::size_t i = 0; i < length; ++i) {
    key = MixWords(key, script.content[i]);
    if ((i + 1) % static_cast<std::size_t>(options_.key_tokens) == 0) {
      script.keys.push_back(SharedKey(key));
    }
  }
}

void HostileWorld::DrawDeparture(Script& script) {
  if (!options_.cancels || random_.UnitReal() > 0.2) return;
  const double kind = random_.UnitReal();
  script.cancelled =
      Later(script.arrival, kind < 0.5 ? random_.UniformInt(1, 8) : random_.UniformInt(1, 120));
}

void HostileWorld::FinishSteps(Replica& replica) {
  while (!replica.in_flight.empty() && replica.in_flight.front().ends <= now_) {
    FinishStep(replica.in_flight.PopFront(), replica.stale);
  }
}

void HostileWorld::FinishStep(const Flight& flight, StaleTokens& stale) {
  std::vector<ItemOutcome>& outcomes = outcomes_.emplace_back();
  std::vector<BlockFilled>& filled = filled_.emplace_back();
  for (std::size_t i = 0; i < flight.plan->work.size(); ++i) {
    const WorkItem& item = flight.plan->work[i];
    Script& script = scripts_[Index(item.request)];
    if (item.emits && stale.Takes(item.request)) {
      outcomes.push_back({item.request, 0, FinishReason::kNone});
    } else if (item.emits && script.fate == Fate::kLive) {
      EmitTokens(script, item, flight.accepted.empty() ? 0 : flight.accepted[i], outcomes, filled);
    }
  }
  if (options_.forgets_stale_tokens) stale.Returned();
  events_.push_back(
      StepFinished{flight.plan->id, flight.started, outcomes, filled, flight.plan->replica});
}

void HostileWorld::EmitTokens(Script& script, const WorkItem& item, std::int32_t accepted,
                              std::vector<ItemOutcome>& outcomes,
                              std::vector<BlockFilled>& filled) {
  ItemOutcome outcome{.request = item.request, .accepted_drafts = accepted};
  for (std::int32_t i = 0; i <= accepted && outcome.finish == FinishReason::kNone; ++i) {
    outcome.finish = EmitToken(script, item.request, outcome.emitted_tokens, filled);
  }
  if (options_.drafts_max > 0 && !options_.assumes_drafts) {
    outcome.new_drafts = static_cast<std::int32_t>(random_.UniformInt(0, options_.drafts_max));
  }
  // Expected outcomes are not reported.
  const ItemOutcome expected{.request = item.request, .emitted_tokens = 1};
  if (outcome != expected) outcomes.push_back(outcome);
  if (outcome.finish != FinishReason::kNone) Turn(script, Fate::kFinished);
}

FinishReason HostileWorld::EmitToken(Script& script, RequestId id, std::int32_t& emitted,
                                     std::vector<BlockFilled>& filled) {
  const bool last = script.emitted + 1 == script.output_tokens;
  if (last && script.stops_silently) return FinishReason::kStop;
  ++script.emitted;
  ++emitted;
  const std::int32_t known = script.prompt_tokens + script.emitted;
  if (options_.shares_prefixes && known % options_.key_tokens == 0) {
    filled.push_back(
        {id, script.keys.at(static_cast<std::size_t>(known / options_.key_tokens - 1))});
  }
  if (!last && known < options_.context_tokens) return FinishReason::kNone;
  const bool stops = known < options_.context_tokens && script.emitted < script.max_output_tokens;
  return stops ? FinishReason::kStop : FinishReason::kLength;
}

void HostileWorld::Cancel(RequestId id) {
  Script& script = scripts_[Index(id)];
  if (script.fate == Fate::kLive) Turn(script, Fate::kCancelled);
  events_.push_back(RequestCancelled{id});
}

void HostileWorld::Announce(RequestId id) {
  Script& script = scripts_[Index(id)];
  Turn(script, Fate::kLive);
  Request request;
  request.id = id;
  request.arrival = script.arrival;
  request.prompt_tokens = script.prompt_tokens;
  request.max_output_tokens = script.max_output_tokens;
  request.priority = script.priority;
  if (options_.priorities) {
    request.tenant = Index(id) % 3;
    request.predicted_output_tokens =
        Index(id) % 4 == 0 ? -1 : (script.output_tokens * 7 + script.prompt_tokens) % 30;
  }
  const auto full = static_cast<std::size_t>(script.prompt_tokens / options_.key_tokens);
  if (options_.shares_prefixes) request.prefix_keys = {script.keys.data(), full};
  events_.push_back(RequestArrived{request});
}

void HostileWorld::Turn(Script& script, Fate fate) {
  --counts_[static_cast<std::size_t>(script.fate)];
  ++counts_[static_cast<std::size_t>(fate)];
  script.fate = fate;
}

void HostileWorld::Fail(const std::string& what) {
  if (fault_.empty()) fault_ = what;
}

}  // namespace twin
