// Converts instants and plans to the messages of a record and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "run/files/record_file.h"
#include "sched/event.h"
#include "sched/kv_transfer.h"
#include "sched/step_plan.h"

namespace twin::proto {
class RecordHeader;
class RecordedInstant;
class RecordedPlan;
class RecordedTransfer;
class RecordedTransferFinish;
class RecordedRefusal;
}  // namespace twin::proto

namespace twin {

void Encode(const RecordHeader& header, proto::RecordHeader& message);
// `previous` is the time of the instant before. REQUIRES: the message is empty.
void Encode(const Instant& instant, TimePoint previous, proto::RecordedInstant& message);
void Encode(const StepPlan& plan, proto::RecordedPlan& message);
void Encode(const KvTransfer& transfer, proto::RecordedTransfer& message);
void Encode(const TransferFinished& finished, TimePoint now,
            proto::RecordedTransferFinish& message);
void Encode(const RefusedRequest& refused, proto::RecordedRefusal& message);

// The decoders return nullptr, or what is wrong with the message. They check everything that
// readers of a record rely on: lengths of lists, ranges of numbers and enumerations, and the order
// of ids and steps.
const char* Decode(const proto::RecordHeader& message, RecordHeader& header);

// Owns the memory that the spans of a decoded instant refer to.
class InstantDecoder {
 public:
  // `instant` is valid until the next call.
  const char* Decode(const proto::RecordedInstant& message, Instant& instant);
  // Call it for every plan, in order: a step may finish only after it was planned.
  const char* Planned(const StepPlan& plan);
  // Decodes a transfer, which may finish from now on. Valid until the next call.
  const char* Decode(const proto::RecordedTransfer& message, KvTransfer& transfer);

 private:
  static constexpr std::size_t kReplicasMax = 100'000;
  struct Steps {
    std::uint64_t planned = 0;
    std::uint64_t finished = 0;
  };

  const char* DecodeFinished(const proto::RecordedInstant& message);
  const char* DecodeTransferred(const proto::RecordedInstant& message);
  const char* DecodeArrivals(const proto::RecordedInstant& message);

  TimePoint now_ = kTimeZero;
  std::vector<Steps> steps_;  // by replica
  std::int64_t latest_request_ = -1;
  std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> under_way_;  // transfers
  std::vector<BlockId> source_;
  std::vector<BlockId> target_;
  std::vector<Event> events_;
  std::vector<std::vector<ItemOutcome>> outcomes_;
  std::vector<std::vector<BlockFilled>> filled_;
  std::vector<std::vector<BlockKey>> prefix_keys_;
};

const char* Decode(const proto::RecordedPlan& message, StepPlan& plan);
const char* Decode(const proto::RecordedRefusal& message, RefusedRequest& refused);

}  // namespace twin
