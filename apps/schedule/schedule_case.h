// A scheduling case: requests and policy parameters, and the decisions that are expected of them,
// in unit time (one iteration = one step) or with a given time a batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/kv_groups.h"
#include "sched/policy/speculation.h"

namespace twin::run {

struct ScheduleRequest {
  std::int32_t step =
      1;  // the request is in the waiting queue before this iteration's scheduler call
  std::int64_t arrival_us = 0;  // instead of `step`, in a case with a batch time
  // The client leaves before the scheduler call of this iteration, after its arrivals; 0 = never.
  std::int32_t cancel = 0;
  std::int32_t prompt_tokens = 0;
  std::int32_t output_tokens = 0;
  std::int32_t max_output_tokens = 0;
  std::int32_t priority = 0;
  std::int32_t predicted_output_tokens = -1;
  std::int32_t tenant = 0;
  bool ignore_eos = false;
  std::vector<std::int64_t> tokens;  // prompt token ids; empty = content unknown
  // Scripts of speculation by emitting item, repeated at their end: number of accepted drafts, and
  // number of drafts offered for the next item.
  std::vector<std::int32_t> accept;
  std::vector<std::int32_t> propose;
};

// Time of a batch in microseconds: base_us + per_request_us * its size.
struct BatchTime {
  std::int64_t base_us = 0;
  std::int64_t per_request_us = 0;
};

// A line of a case file (NDJSON).
struct ScheduleCase {
  std::string name;
  std::string where;  // file and line, for refusals
  std::string policy;
  std::string variant;    // the family of cases it belongs to; default: the policy
  nlohmann::json params;  // without the parameters in `speculation`
  SpeculationRules speculation;
  std::int32_t block_size = 1;
  std::int32_t blocks = 0;  // 0 = memory is not part of the case
  std::int32_t host_blocks = 0;
  std::optional<KvGroups> kv_groups;      // unset: one of all tokens
  std::int32_t window_blocks = 0;         // of a second pool; 0 = there is none
  std::vector<ScheduleRequest> requests;  // in order of arrival
  bool truncated = false;                 // `steps` ends before the requests do
  std::optional<BatchTime> batch_time;    // instead of unit time; `steps` are then batches
  nlohmann::json steps;                   // the expected decisions; null if the case has none

  // The field of the line that holds the decisions.
  [[nodiscard]] const char* decisions() const { return batch_time ? "batches" : "steps"; }
};

// Throws InputError naming `where` (file and line) and the field.
ScheduleCase ParseScheduleCase(const std::string& line, const std::string& where);

}  // namespace twin::run
