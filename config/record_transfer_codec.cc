#include "config/record.pb.h"
#include "config/record_codec.h"
#include "config/record_columns.h"
#include "core/check.h"

namespace twin {
namespace {

using namespace record_columns;  // NOLINT(google-build-using-namespace): numbers of columns

using Blocks = google::protobuf::RepeatedField<std::int64_t>;

bool DecodeBlocks(const Blocks& column, std::vector<BlockId>& blocks) {
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
