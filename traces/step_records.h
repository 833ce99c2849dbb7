// Records of a server's steps: the composition of each batch, the queue behind it, and its time, as
// vLLM, SGLang and TensorRT-LLM publish them (ForwardPassMetrics of NVIDIA Dynamo, version 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/time.h"

namespace twin {

// One record. Sums are over the requests of the step.
struct StepRecord {
  std::uint32_t file = 0;  // index of its file, as the next
  std::uint32_t worker = 0;
  std::int64_t line = 0;
  std::int64_t counter = 0;  // rises by 1 from record to record of a worker
  Duration time{0};          // as StepRecords::device_times says; 0 in idle records
  // When it was observed, shortly after its end, to the millisecond; nullopt: the file has no time.
  std::optional<TimePoint> observed{};
  std::int64_t prefill_requests = 0;
  std::int64_t prefill_tokens = 0;     // computed in this step
  std::int64_t prefill_kv_tokens = 0;  // of the same requests, computed before or cached
  std::int64_t decode_requests = 0;
  std::int64_t decode_kv_tokens = 0;
  double decode_kv_variance = 0;         // of decode_kv_tokens between requests
  std::optional<std::int64_t> queued{};  // waiting, new and preempted ones; nullopt: not recorded

  [[nodiscard]] bool is_idle() const { return prefill_requests == 0 && decode_requests == 0; }
  // False: a record of prompts without their tokens, which SGLang writes for batches that it did
  // not count.
  [[nodiscard]] bool has_tokens() const { return prefill_tokens >= prefill_requests; }
};

struct StepRecords {
  std::vector<std::string> files;
  std::vector<std::string> workers;  // names: component, worker_id and dp_rank
  std::vector<StepRecord> records;   // in the order of the files; counters of a worker rise
  // The records name execute_model_cuda as their timing_scope: the device alone. Otherwise the
  // server defines `time`.
  bool device_times = false;

  // "FILE:LINE".
  [[nodiscard]] std::string PlaceOf(const StepRecord& record) const;
};

// The most requests of a record, and its longest time.
inline constexpr std::int64_t kStepRequestsMax = 100'000;
inline constexpr Duration kStepRecordMax{1'000'000'000'000};

// Reads JSON lines, plain or gzip: ForwardPassMetrics, alone, as the member "fpm" of an object, or
// as Dynamo's trace has them ("event.fpm"). Throws InputError (data): file, line, field, what is
// wrong, what is allowed; also for requests without tokens and tokens without requests, for a
// counter that does not rise, and if no record is a step.
StepRecords ReadStepRecords(std::span<const std::string> paths);

}  // namespace twin
