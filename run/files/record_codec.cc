#include "run/files/record_codec.h"

#include <algorithm>

#include "core/check.h"
#include "run/files/record.pb.h"
#include "run/files/record_columns.h"
#include "sched/cache/kv_limits.h"

namespace twin {

namespace {

using namespace record_columns;  // NOLINT(google-build-using-namespace): numbers of columns

void EncodeGroups(const KvGroups& groups, proto::RecordedKvGroups& message) {
  message.set_scheduler_block(groups.scheduler_block);
  message.set_hash_block(groups.hash_block);
  for (const KvGroup& group : groups.groups) {
    proto::RecordedKvGroups::Group& recorded = *message.add_groups();
    recorded.set_kind(static_cast<std::uint32_t>(group.kind));
    recorded.set_block_size(group.block_size);
    recorded.set_layers(group.layers);
    recorded.set_span(group.span);
    recorded.set_states(static_cast<std::uint32_t>(group.states));
  }
}

// Nothing if the groups are none that an engine can have.
std::optional<KvGroups> DecodeGroups(const proto::RecordedKvGroups& message) {
  KvGroups groups;
  groups.groups.clear();
  groups.scheduler_block = message.scheduler_block();
  groups.hash_block = message.hash_block();
  if (groups.scheduler_block < 1 || groups.hash_block < 1) return std::nullopt;
  for (const proto::RecordedKvGroups::Group& recorded : message.groups()) {
    KvGroup group{
        .block_size = recorded.block_size(), .layers = recorded.layers(), .span = recorded.span()};
    const bool right =
        Enumerator(recorded.kind(), KvGroupKind::kState, group.kind) &&
        Enumerator(recorded.states(), StateBlocks::kAligned, group.states) &&
        group.block_size >= 1 && group.layers >= 1 &&
        groups.scheduler_block % group.block_size == 0 &&
        (group.block_size % groups.hash_block == 0 || groups.hash_block % group.block_size == 0);
    const bool spans = group.kind == KvGroupKind::kWindow || group.kind == KvGroupKind::kChunked;
    if (!right || (spans ? group.span < 1 : group.span != 0)) return std::nullopt;
    groups.groups.push_back(group);
  }
  if (groups.groups.empty()) return std::nullopt;
  return groups;
}

// The fields that the header and a group of replicas share.
template <class MessageType>
void EncodeEngine(const EngineConfig& engine, MessageType& message) {
  const KvPoolConfig& kv = engine.kv;
  message.set_block_size(kv.block_size);
  message.set_blocks(kv.blocks);
  message.set_host_blocks(kv.host_blocks);
  message.set_release_order(kv.release_order == ReleaseOrder::kKeylessFront
                                ? proto::RecordHeader::keyless_front
                                : proto::RecordHeader::back);
  message.set_key_tokens(kv.key_tokens);
  message.set_plans_per_instant_max(engine.plans_per_instant_max);
  message.set_prompt_tokens_max(engine.prompt_tokens_max);
  message.set_window_blocks(kv.window_blocks);
  if (engine.kv_groups) EncodeGroups(*engine.kv_groups, *message.mutable_kv_groups());
}

template <class MessageType>
const char* DecodeEngine(const MessageType& message, EngineConfig& engine) {
  if (!proto::RecordHeader::ReleaseOrder_IsValid(message.release_order())) {
    return "an unknown release order";
  }
  KvPoolConfig& kv = engine.kv;
  kv.block_size = message.block_size();
  kv.blocks = message.blocks();
  kv.host_blocks = message.host_blocks();
  kv.release_order = message.release_order() == proto::RecordHeader::keyless_front
                         ? ReleaseOrder::kKeylessFront
                         : ReleaseOrder::kBack;
  kv.key_tokens = message.key_tokens();
  engine.plans_per_instant_max = message.plans_per_instant_max();
  engine.prompt_tokens_max = message.prompt_tokens_max();
  kv.window_blocks = message.window_blocks();
  if (message.has_kv_groups()) {
    engine.kv_groups = DecodeGroups(message.kv_groups());
    if (!engine.kv_groups) return "KV groups of impossible size";
  }
  const bool sizes = kv.window_blocks >= 0 && kv.window_blocks <= kKvBlocksMax &&
                     kv.block_size >= 1 && kv.blocks >= 0 && kv.blocks <= kKvBlocksMax &&
                     kv.host_blocks >= 0 && kv.host_blocks <= kKvBlocksMax && kv.key_tokens >= 0 &&
                     engine.plans_per_instant_max >= 0 && engine.prompt_tokens_max >= 0 &&
                     kv.block_size % kv.tokens_per_key() == 0;
  return sizes ? nullptr : "a KV cache or limits of impossible size";
}

void EncodeFinished(const StepFinished& finished, TimePoint now, proto::RecordedFinish& message) {
  message.set_step(Index(finished.step));
  message.set_replica(Unsigned(finished.replica));
  message.set_started_before((now - finished.started).count());
  Differences outcome_requests;
  const auto any = [&](std::int32_t ItemOutcome::*drafts) {
    return std::any_of(finished.outcomes.begin(), finished.outcomes.end(),
                       [drafts](const ItemOutcome& outcome) { return outcome.*drafts != 0; });
  };
  const bool accepted = any(&ItemOutcome::accepted_drafts);
  const bool offered = any(&ItemOutcome::new_drafts);
  for (const ItemOutcome& outcome : finished.outcomes) {
    if (accepted) message.add_outcome_accepted(Unsigned(outcome.accepted_drafts));
    if (offered) message.add_outcome_new_drafts(Unsigned(outcome.new_drafts));
    message.add_outcome_request_delta(outcome_requests(Index(outcome.request)));
    message.add_outcome_emitted(Unsigned(outcome.emitted_tokens));
    message.add_outcome_finish(static_cast<std::uint32_t>(outcome.finish));
  }
  Differences filled_requests;
  for (const BlockFilled& filled : finished.filled) {
    message.add_filled_request_delta(filled_requests(Index(filled.request)));
    message.add_filled_key(static_cast<std::uint64_t>(filled.key));
  }
}

void EncodeArrival(const RequestArrived& arrived, TimePoint now, proto::RecordedArrival& message) {
  const Request& request = arrived.request;
  message.set_request(Index(request.id));
  message.set_arrived_before((now - request.arrival).count());
  message.set_prompt_tokens(Unsigned(request.prompt_tokens));
  message.set_max_output_tokens(Unsigned(request.max_output_tokens));
  message.set_priority(request.priority);
  message.set_tenant(request.tenant);
  message.set_ignore_eos(request.ignore_eos);
  message.set_session(request.session);
  if (request.predicted_output_tokens >= 0) {
    message.set_predicted_output_tokens(Unsigned(request.predicted_output_tokens));
  }
  for (const BlockKey key : request.prefix_keys) {
    message.add_prefix_keys(static_cast<std::uint64_t>(key));
  }
  message.set_response_delay(static_cast<std::uint64_t>(arrived.response_delay.count()));
  message.set_client_wait(static_cast<std::uint64_t>(arrived.client_wait.count()));
}

// Computes the time `before` nanoseconds before `now`; false if the clock cannot represent it.
bool Before(TimePoint now, std::int64_t before, TimePoint& time) {
  std::int64_t ns = 0;
  if (__builtin_sub_overflow(Nanoseconds(now), before, &ns)) return false;
  time = TimePoint{Duration{ns}};
  return true;
}

const char* DecodeArrival(const proto::RecordedArrival& message, TimePoint now, Request& request) {
  request.id = RequestId{message.request()};
  const bool numbers = Signed(message.prompt_tokens(), request.prompt_tokens) &&
                       Signed(message.max_output_tokens(), request.max_output_tokens);
  if (!numbers || request.prompt_tokens < 1 || request.max_output_tokens < 1) {
    return "an arrival without tokens";
  }
  if (message.has_predicted_output_tokens() &&
      !Signed(message.predicted_output_tokens(), request.predicted_output_tokens)) {
    return "a predicted output out of range";
  }
  if (!Before(now, message.arrived_before(), request.arrival)) return "an arrival out of range";
  request.priority = message.priority();
  request.tenant = message.tenant();
  request.ignore_eos = message.ignore_eos();
  request.session = message.session();
  return nullptr;
}

bool DecodeBlocks(const google::protobuf::RepeatedField<std::int64_t>& column,
                  std::vector<BlockId>& blocks) {
  blocks.clear();
  Sums sums(0, kInt32Max);
  for (const std::int64_t delta : column) {
    std::int64_t block = 0;
    if (!sums.Add(delta, block)) return false;
    blocks.push_back(ToBlock(block));
  }
  return true;
}

}  // namespace

void Encode(const RecordHeader& header, proto::RecordHeader& message) {
  message.set_schema_version(1);
  message.set_config(header.config);
  message.set_seed(header.seed);
  message.set_version(header.version);
  message.set_policy(header.policy);
  message.set_delivery(header.delivery == Delivery::kBatchEnd ? proto::RecordHeader::batch_end
                                                              : proto::RecordHeader::per_step);
  EncodeEngine(header.engine, message);
  for (const EngineGroup& group : header.groups) {
    proto::RecordedGroup& recorded = *message.add_groups();
    recorded.set_replicas(group.replicas);
    EncodeEngine(group.engine, recorded);
  }
}

const char* Decode(const proto::RecordHeader& message, RecordHeader& header) {
  if (message.schema_version() != 1) return "a record of another schema version; read is 1";
  header.config = message.config();
  header.seed = message.seed();
  header.version = message.version();
  header.policy = message.policy();
  if (!proto::RecordHeader::Delivery_IsValid(message.delivery())) return "an unknown delivery";
  header.delivery = message.delivery() == proto::RecordHeader::batch_end ? Delivery::kBatchEnd
                                                                         : Delivery::kPerStep;
  for (const proto::RecordedGroup& recorded : message.groups()) {
    EngineGroup& group = header.groups.emplace_back();
    group.replicas = recorded.replicas();
    if (group.replicas < 1) return "a group without replicas";
    if (const char* wrong = DecodeEngine(recorded, group.engine)) return wrong;
  }
  return DecodeEngine(message, header.engine);
}

void Encode(const KvTransfer& transfer, proto::RecordedTransfer& message) {
  message.set_request(Index(transfer.request));
  message.set_from(Unsigned(transfer.from));
  message.set_to(Unsigned(transfer.to));
  message.set_start(Unsigned(transfer.start));
  message.set_tokens(Unsigned(transfer.tokens));
  message.set_computed(static_cast<std::uint64_t>(Nanoseconds(transfer.computed)));
  Differences sources;
  for (const BlockId id : transfer.source) message.add_source_delta(sources(Index(id)));
  Differences targets;
  for (const BlockId id : transfer.target) message.add_target_delta(targets(Index(id)));
}

void Encode(const TransferFinished& finished, TimePoint now,
            proto::RecordedTransferFinish& message) {
  message.set_request(Index(finished.request));
  message.set_from(Unsigned(finished.from));
  message.set_to(Unsigned(finished.to));
  message.set_started_before((now - finished.started).count());
}

void Encode(const Instant& instant, TimePoint previous, proto::RecordedInstant& message) {
  CHECK(instant.now >= previous);
  message.set_now_delta(static_cast<std::uint64_t>((instant.now - previous).count()));
  std::size_t kind = 0;
  for (const Event& event : instant.events) {
    CHECK(event.index() >= kind);
    kind = event.index();
    if (const auto* transferred = std::get_if<TransferFinished>(&event)) {
      Encode(*transferred, instant.now, *message.add_transferred());
    } else if (const auto* finished = std::get_if<StepFinished>(&event)) {
      EncodeFinished(*finished, instant.now, *message.add_finished());
    } else if (const auto* cancelled = std::get_if<RequestCancelled>(&event)) {
      message.add_cancelled(Index(cancelled->request));
      if (cancelled->answered) message.add_answered(Index(cancelled->request));
    } else if (const auto* arrived = std::get_if<RequestArrived>(&event)) {
      EncodeArrival(*arrived, instant.now, *message.add_arrived());
    } else {
      message.set_wake_ups(message.wake_ups() + 1);
    }
  }
}

void Encode(const RefusedRequest& refused, proto::RecordedRefusal& message) {
  message.set_time(static_cast<std::uint64_t>(Nanoseconds(refused.time)));
  message.set_prompt_tokens(Unsigned(refused.prompt_tokens));
  message.set_max_output_tokens(Unsigned(refused.max_output_tokens));
  message.set_priority(refused.priority);
  message.set_tenant(refused.tenant);
  message.set_session(refused.session);
  message.set_draining(refused.draining);
}

const char* Decode(const proto::RecordedRefusal& message, RefusedRequest& refused) {
  const auto ns = static_cast<std::int64_t>(message.time());
  const bool numbers = ns >= 0 && Signed(message.prompt_tokens(), refused.prompt_tokens) &&
                       Signed(message.max_output_tokens(), refused.max_output_tokens);
  if (!numbers) return "a refused request out of range";
  refused.time = TimePoint{Duration{ns}};
  refused.priority = message.priority();
  refused.tenant = message.tenant();
  refused.session = message.session();
  refused.draining = message.draining();
  return nullptr;
}

const char* InstantDecoder::Planned(const StepPlan& plan) {
  const auto replica = static_cast<std::size_t>(plan.replica);
  if (replica >= kReplicasMax) return "a step of an impossible replica";
  if (replica >= steps_.size()) steps_.resize(replica + 1);
  if (Index(plan.id) != steps_[replica].planned + 1) return "a step out of order";
  ++steps_[replica].planned;
  return nullptr;
}

const char* InstantDecoder::Decode(const proto::RecordedInstant& message, Instant& instant) {
  constexpr std::uint32_t kWakeUpsMax = 1u << 16;
  const auto delta = static_cast<std::int64_t>(message.now_delta());
  TimePoint now;
  if (delta < 0 || !Before(now_, -delta, now)) return "a time out of range";
  now_ = now;
  events_.clear();
  if (const char* wrong = DecodeTransferred(message)) return wrong;
  if (const char* wrong = DecodeFinished(message)) return wrong;
  auto answered = message.answered().begin();
  for (const std::uint32_t request : message.cancelled()) {
    if (request > latest_request_) return "a cancellation of a request that did not arrive";
    const bool whole = answered != message.answered().end() && *answered == request;
    if (whole) ++answered;
    events_.emplace_back(RequestCancelled{RequestId{request}, whole});
  }
  if (answered != message.answered().end()) return "an answer of a request that was not cancelled";
  if (const char* wrong = DecodeArrivals(message)) return wrong;
  if (message.wake_ups() > kWakeUpsMax) return "too many wake-ups";
  for (std::uint32_t i = 0; i < message.wake_ups(); ++i) events_.emplace_back(WakeUp{});
  if (events_.empty()) return "an instant without events";
  instant = {now_, events_};
  return nullptr;
}

const char* InstantDecoder::DecodeFinished(const proto::RecordedInstant& message) {
  const auto count = static_cast<std::size_t>(message.finished_size());
  if (outcomes_.size() < count) {
    outcomes_.resize(count);
    filled_.resize(count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const proto::RecordedFinish& finish = message.finished(static_cast<int>(i));
    const int outcomes = finish.outcome_request_delta_size();
    const int filled = finish.filled_request_delta_size();
    const bool accepted = finish.outcome_accepted_size() > 0;
    const bool offered = finish.outcome_new_drafts_size() > 0;
    const bool columns = finish.outcome_emitted_size() == outcomes &&
                         finish.outcome_finish_size() == outcomes &&
                         (!accepted || finish.outcome_accepted_size() == outcomes) &&
                         (!offered || finish.outcome_new_drafts_size() == outcomes) &&
                         finish.filled_key_size() == filled;
    if (!columns) return "columns of unequal length";
    const std::uint32_t replica = finish.replica();
    if (replica >= steps_.size() || finish.step() != steps_[replica].finished + 1 ||
        finish.step() > steps_[replica].planned) {
      return "the end of a step that does not run";
    }
    ++steps_[replica].finished;
    outcomes_[i].clear();
    Sums outcome_requests(0, latest_request_);
    for (int j = 0; j < outcomes; ++j) {
      std::int64_t request = 0;
      ItemOutcome outcome;
      const bool right =
          outcome_requests.Add(finish.outcome_request_delta(j), request) &&
          Signed(finish.outcome_emitted(j), outcome.emitted_tokens) &&
          (!accepted || Signed(finish.outcome_accepted(j), outcome.accepted_drafts)) &&
          (!offered || Signed(finish.outcome_new_drafts(j), outcome.new_drafts)) &&
          Enumerator(finish.outcome_finish(j), FinishReason::kLength, outcome.finish);
      if (!right) return "an outcome out of range";
      outcome.request = ToRequest(request);
      outcomes_[i].push_back(outcome);
    }
    filled_[i].clear();
    Sums filled_requests(0, latest_request_);
    for (int j = 0; j < filled; ++j) {
      std::int64_t request = 0;
      if (!filled_requests.Add(finish.filled_request_delta(j), request)) {
        return "a filled block of no request";
      }
      filled_[i].push_back({ToRequest(request), BlockKey{finish.filled_key(j)}});
    }
    TimePoint started;
    if (!Before(now_, finish.started_before(), started)) return "a start out of range";
    events_.emplace_back(StepFinished{StepId{finish.step()}, started, outcomes_[i], filled_[i],
                                      static_cast<std::int32_t>(replica)});
  }
  return nullptr;
}

const char* InstantDecoder::DecodeArrivals(const proto::RecordedInstant& message) {
  const auto count = static_cast<std::size_t>(message.arrived_size());
  if (prefix_keys_.size() < count) prefix_keys_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const proto::RecordedArrival& arrival = message.arrived(static_cast<int>(i));
    Request request;
    if (const char* wrong = DecodeArrival(arrival, now_, request)) return wrong;
    if (arrival.request() <= latest_request_) return "a request out of order";
    const auto response = static_cast<std::int64_t>(arrival.response_delay());
    const auto wait = static_cast<std::int64_t>(arrival.client_wait());
    constexpr std::int64_t kDelayMax = std::int64_t{1} << 61;  // 73 years
    if (response < 0 || response > kDelayMax) return "a response delay out of range";
    if (wait < 0 || wait > kDelayMax) return "a wait of a client out of range";
    latest_request_ = arrival.request();
    prefix_keys_[i].clear();
    for (const std::uint64_t key : arrival.prefix_keys()) prefix_keys_[i].push_back(BlockKey{key});
    request.prefix_keys = prefix_keys_[i];
    events_.emplace_back(RequestArrived{request, Duration{response}, Duration{wait}});
  }
  return nullptr;
}

const char* InstantDecoder::Decode(const proto::RecordedTransfer& message, KvTransfer& transfer) {
  transfer.request = RequestId{message.request()};
  const bool numbers = Signed(message.from(), transfer.from) && Signed(message.to(), transfer.to) &&
                       Signed(message.start(), transfer.start) &&
                       Signed(message.tokens(), transfer.tokens);
  const bool replicas = message.from() < kReplicasMax && message.to() < kReplicasMax;
  if (!numbers || !replicas || transfer.from == transfer.to || transfer.start >= transfer.tokens) {
    return "a transfer out of range";
  }
  if (std::int64_t{message.request()} > latest_request_) return "a transfer of no request";
  if (message.source_delta_size() != message.target_delta_size()) return "blocks without a target";
  if (!DecodeBlocks(message.source_delta(), source_) ||
      !DecodeBlocks(message.target_delta(), target_)) {
    return "a block out of range";
  }
  transfer.computed = TimePoint{Duration{static_cast<std::int64_t>(message.computed())}};
  if (transfer.computed < kTimeZero || transfer.computed > now_) return "a time out of range";
  transfer.source = source_;
  transfer.target = target_;
  const std::pair path{message.from(), message.to()};
  return under_way_.emplace(message.request(), path).second ? nullptr : "a transfer of a transfer";
}

const char* InstantDecoder::DecodeTransferred(const proto::RecordedInstant& message) {
  for (const proto::RecordedTransferFinish& finish : message.transferred()) {
    const auto found = under_way_.find(finish.request());
    if (found == under_way_.end() || found->second != std::pair{finish.from(), finish.to()}) {
      return "the end of a transfer that is not under way";
    }
    under_way_.erase(found);
    std::int64_t started = 0;
    if (__builtin_sub_overflow(Nanoseconds(now_), finish.started_before(), &started)) {
      return "a start out of range";
    }
    events_.emplace_back(
        TransferFinished{RequestId{finish.request()}, static_cast<std::int32_t>(finish.from()),
                         static_cast<std::int32_t>(finish.to()), TimePoint{Duration{started}}});
  }
  return nullptr;
}

}  // namespace twin
