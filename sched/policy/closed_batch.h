// A batch that enters and leaves together: the core of static batching and of servers that give a
// model a batch at a time.
//
// All rows are prefilled in one step, and then decoded, a token per row and step, until the last
// one has finished. Nobody joins meanwhile, and nobody is preempted: memory is reserved for the
// whole batch.
//
// Easy to get wrong:
// - Padded: all rows are charged as many prompt tokens as the longest has, and a finished row is
//   computed until the batch ends (StepPlan::padding_rows). Its memory and its answer come back
//   only then, so TTFT and end-to-end times are the whole batch's.
// - Padded: the row size is the longest prompt plus the largest output limit of the batch, which
//   need not come from the same request. Adding a row can make all rows longer.
// - Trimmed: nothing is padded and finished rows drop out, but each row reserves max_model_len
//   tokens, and the batch is still closed to new requests.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "sched/sequence.h"

namespace twin {

class OrderedQueue;
class StepBuilder;

class ClosedBatch {
 public:
  enum class Offered : std::uint8_t {
    kTaken,
    kRejected,  // could never be served
    kNoRoom,    // the batch is complete
  };

  // With `padded`, max_model_len is not used. Otherwise it is the tokens that each row reserves.
  ClosedBatch(bool padded, std::int32_t max_model_len)
      : padded_(padded), max_model_len_(max_model_len) {}

  // True until all rows have finished.
  [[nodiscard]] bool running() const { return !live_.empty(); }

  // While the batch is formed: takes the waiting request as a further row if there are fewer than
  // `rows_max` and its memory is free, or rejects it. REQUIRES: the next call is TryAddRow or
  // Begin.
  Offered TryAddRow(StepBuilder& step, RequestId id, std::int32_t rows_max);
  // Offers the front of the queue, which leaves the queue unless the batch is complete. False if
  // the batch is complete or the queue is empty.
  bool TryAddFront(StepBuilder& step, OrderedQueue& waiting, std::int32_t rows_max);
  // Computes the prompts of all rows.
  void Begin(StepBuilder& step);

  // Computes a token of every row. REQUIRES: running().
  void Decode(StepBuilder& step);

  // The sequence ended. False if it is not a row.
  bool Remove(RequestId id);

  // Padded: appends the finished rows if the batch has ended; their blocks are freed now.
  void CollectReleases(std::vector<RequestId>& finished);

 private:
  [[nodiscard]] bool Rejects(StepBuilder& step, const Sequence& s) const;
  [[nodiscard]] bool TakePadded(StepBuilder& step, const Sequence& s);
  [[nodiscard]] bool TakeTrimmed(StepBuilder& step, const Sequence& s) const;

  bool padded_;
  std::int32_t max_model_len_;
  std::vector<RequestId> live_;  // rows that have not finished, in order of admission
  std::vector<RequestId> done_;  // padded: rows that have
  // Padded, while the batch is formed.
  std::int32_t prompt_max_ = 0;
  std::int32_t output_max_ = 0;
};

}  // namespace twin
