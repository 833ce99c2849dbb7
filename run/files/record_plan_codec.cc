#include <algorithm>

#include "run/files/record.pb.h"
#include "run/files/record_codec.h"
#include "run/files/record_columns.h"

namespace twin {

namespace {

using namespace record_columns;  // NOLINT(google-build-using-namespace): numbers of columns
using google::protobuf::RepeatedField;

constexpr std::uint32_t kDecodeFlag = 1;
constexpr std::uint32_t kEmitsFlag = 2;
constexpr int kStateNumbers = 6;
constexpr const char* kUnequal = "columns of unequal length";

// The sums of a plan. Its maxima follow from the work and are not stored.
constexpr std::int64_t StepTotals::*kTotals[] = {&StepTotals::prefill_tokens,
                                                 &StepTotals::prefill_items,
                                                 &StepTotals::prefill_context_tokens,
                                                 &StepTotals::prefill_attention_pairs,
                                                 &StepTotals::decode_items,
                                                 &StepTotals::decode_context_tokens,
                                                 &StepTotals::emitting_items,
                                                 &StepTotals::padding_tokens,
                                                 &StepTotals::draft_items,
                                                 &StepTotals::draft_tokens};
// Number of totals that are stored for a plan without drafts: all but the last two.
constexpr std::size_t kPlainTotals = std::size(kTotals) - 2;

void EncodeWork(const StepPlan& plan, proto::RecordedPlan& message) {
  const bool padded = std::any_of(plan.work.begin(), plan.work.end(),
                                  [](const WorkItem& item) { return item.padded_tokens != 0; });
  Differences requests;
  for (const WorkItem& item : plan.work) {
    message.add_work_request_delta(requests(Index(item.request)));
    message.add_work_start(Unsigned(item.start));
    message.add_work_tokens(Unsigned(item.tokens));
    message.add_work_flags((item.phase == Phase::kDecode ? kDecodeFlag : 0) |
                           (item.emits ? kEmitsFlag : 0));
    if (padded) message.add_work_padded(Unsigned(item.padded_tokens));
    if (plan.totals.draft_items > 0) message.add_work_drafts(item.drafts);
  }
}

const char* DecodeWork(const proto::RecordedPlan& message, StepPlan& plan) {
  const int size = message.work_request_delta_size();
  const bool padded = message.work_padded_size() > 0;
  const bool drafted = message.work_drafts_size() > 0;
  const bool columns = message.work_start_size() == size && message.work_tokens_size() == size &&
                       message.work_flags_size() == size &&
                       (!drafted || message.work_drafts_size() == size) &&
                       (!padded || message.work_padded_size() == size);
  if (!columns) return kUnequal;
  Sums requests = RequestSums();
  for (int i = 0; i < size; ++i) {
    std::int64_t request = 0;
    WorkItem item;
    const std::uint32_t flags = message.work_flags(i);
    const bool right =
        requests.Add(message.work_request_delta(i), request) &&
        Signed(message.work_start(i), item.start) && Signed(message.work_tokens(i), item.tokens) &&
        (!padded || Signed(message.work_padded(i), item.padded_tokens)) &&
        flags <= (kDecodeFlag | kEmitsFlag) && (!drafted || message.work_drafts(i) <= kDraftsMax);
    if (!right) return "a work item out of range";
    item.request = ToRequest(request);
    item.phase = (flags & kDecodeFlag) != 0 ? Phase::kDecode : Phase::kPrefill;
    item.emits = (flags & kEmitsFlag) != 0;
    if (drafted) item.drafts = static_cast<std::uint8_t>(message.work_drafts(i));
    plan.work.push_back(item);
  }
  return nullptr;
}

void EncodeKv(const StepPlan& plan, proto::RecordedPlan& message) {
  const bool moves = std::any_of(plan.kv.begin(), plan.kv.end(), [](const KvOperation& operation) {
    return operation.other != BlockId::kNone;
  });
  Differences requests;
  Differences blocks;
  for (const KvOperation& operation : plan.kv) {
    message.add_kv_kind(static_cast<std::uint32_t>(operation.kind));
    message.add_kv_request_delta(requests(Index(operation.request)));
    message.add_kv_block_delta(blocks(static_cast<std::int32_t>(operation.block)));
    if (moves) message.add_kv_other(static_cast<std::int32_t>(operation.other));
  }
}

const char* DecodeKv(const proto::RecordedPlan& message, StepPlan& plan) {
  const int size = message.kv_kind_size();
  const bool moves = message.kv_other_size() > 0;
  const bool columns = message.kv_request_delta_size() == size &&
                       message.kv_block_delta_size() == size &&
                       (!moves || message.kv_other_size() == size);
  if (!columns) return kUnequal;
  Sums requests = RequestSums();
  Sums blocks = BlockSums();
  for (int i = 0; i < size; ++i) {
    std::int64_t request = 0;
    std::int64_t block = 0;
    KvOperation operation;
    const std::int64_t other = moves ? message.kv_other(i) : -1;
    const bool right =
        Enumerator(message.kv_kind(i), KvOperation::Kind::kDropFrom, operation.kind) &&
        requests.Add(message.kv_request_delta(i), request) &&
        blocks.Add(message.kv_block_delta(i), block) && other >= -1 && other <= kInt32Max;
    if (!right) return "a KV operation out of range";
    operation.request = ToRequest(request);
    operation.block = ToBlock(block);
    operation.other = ToBlock(other);
    plan.kv.push_back(operation);
  }
  return nullptr;
}

void EncodeLists(const StepPlan& plan, proto::RecordedPlan& message) {
  for (const Preemption& preemption : plan.preempted) {
    message.add_preempted(Index(preemption.request));
    message.add_preempted_how(static_cast<std::uint32_t>(preemption.how));
  }
  for (const RequestId id : plan.admitted) message.add_admitted(Index(id));
  for (const RequestId id : plan.resumed) message.add_resumed(Index(id));
  for (const RequestId id : plan.released) message.add_released(Index(id));
  for (const RequestId id : plan.padding_rows) message.add_padding_rows(Index(id));
  for (const Rejection& rejection : plan.rejected) {
    message.add_rejected(Index(rejection.request));
    message.add_rejected_reason(static_cast<std::uint32_t>(rejection.reason));
  }
  for (const PrefixHit& hit : plan.hits) {
    message.add_hit_request(Index(hit.request));
    message.add_hit_tokens(Unsigned(hit.tokens));
  }
}

void DecodeIds(const RepeatedField<std::uint32_t>& column, std::vector<RequestId>& ids) {
  for (const std::uint32_t id : column) ids.push_back(RequestId{id});
}

const char* DecodeLists(const proto::RecordedPlan& message, StepPlan& plan) {
  const bool columns = message.preempted_size() == message.preempted_how_size() &&
                       message.rejected_size() == message.rejected_reason_size() &&
                       message.hit_request_size() == message.hit_tokens_size();
  if (!columns) return kUnequal;
  for (int i = 0; i < message.preempted_size(); ++i) {
    Preemption preemption{RequestId{message.preempted(i)}, {}};
    if (!Enumerator(message.preempted_how(i), Preemption::How::kSwap, preemption.how)) {
      return "a preemption of unknown kind";
    }
    plan.preempted.push_back(preemption);
  }
  DecodeIds(message.admitted(), plan.admitted);
  DecodeIds(message.resumed(), plan.resumed);
  DecodeIds(message.released(), plan.released);
  DecodeIds(message.padding_rows(), plan.padding_rows);
  for (int i = 0; i < message.rejected_size(); ++i) {
    Rejection rejection{RequestId{message.rejected(i)}, {}};
    if (!Enumerator(message.rejected_reason(i), RejectReason::kOverloaded, rejection.reason)) {
      return "a rejection for an unknown reason";
    }
    plan.rejected.push_back(rejection);
  }
  for (int i = 0; i < message.hit_request_size(); ++i) {
    PrefixHit hit{RequestId{message.hit_request(i)}, 0};
    if (!Signed(message.hit_tokens(i), hit.tokens)) return "a prefix hit out of range";
    plan.hits.push_back(hit);
  }
  return nullptr;
}

const char* DecodeNumbers(const proto::RecordedPlan& message, StepPlan& plan) {
  const auto totals = static_cast<std::size_t>(message.totals_size());
  const bool columns = (totals == kPlainTotals || totals == std::size(kTotals)) &&
                       message.state_size() == kStateNumbers;
  if (!columns) return kUnequal;
  for (std::size_t i = 0; i < totals; ++i) {
    plan.totals.*kTotals[i] = static_cast<std::int64_t>(message.totals(static_cast<int>(i)));
    if (plan.totals.*kTotals[i] < 0) return "a total out of range";
  }
  RecomputeContextMaxima(plan);
  const bool state =
      Signed(message.state(0), plan.free_blocks_before) &&
      Signed(message.state(1), plan.free_blocks) &&
      Signed(message.state(2), plan.free_host_blocks) && Signed(message.state(3), plan.waiting) &&
      Signed(message.state(4), plan.running) && Signed(message.state(5), plan.swapped);
  return state ? nullptr : "a count out of range";
}

}  // namespace

void Encode(const StepPlan& plan, proto::RecordedPlan& message) {
  message.set_step(Index(plan.id));
  message.set_replica(Unsigned(plan.replica));
  EncodeWork(plan, message);
  EncodeKv(plan, message);
  EncodeLists(plan, message);
  const std::size_t totals = plan.totals.draft_items > 0 ? std::size(kTotals) : kPlainTotals;
  for (std::size_t i = 0; i < totals; ++i) {
    message.add_totals(static_cast<std::uint64_t>(plan.totals.*kTotals[i]));
  }
  for (const std::int32_t number :
       {plan.free_blocks_before, plan.free_blocks, plan.free_host_blocks, plan.waiting,
        plan.running, plan.swapped}) {
    message.add_state(Unsigned(number));
  }
}

const char* Decode(const proto::RecordedPlan& message, StepPlan& plan) {
  plan.Clear();
  plan.id = StepId{message.step()};
  if (!Signed(message.replica(), plan.replica)) return "a replica out of range";
  if (const char* wrong = DecodeWork(message, plan)) return wrong;
  if (const char* wrong = DecodeKv(message, plan)) return wrong;
  if (const char* wrong = DecodeLists(message, plan)) return wrong;
  return DecodeNumbers(message, plan);
}

}  // namespace twin
