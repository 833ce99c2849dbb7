#include "apps/schedule/schedule_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "core/input_error.h"
#include "core/printable.h"
#include "sched/step_plan.h"

namespace twin::run {
namespace {

using nlohmann::json;

[[noreturn]] void Refuse(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kData, where, what);
}

// Every step is written down and every block has an entry: a case is no load test.
constexpr std::int64_t kTokensMost = 1'000'000;
constexpr std::int64_t kBlocksMost = 10'000'000;

struct Bounds {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int32_t>::max();
};

// A whole number of `object[field]`; `fallback` below zero means that the field is required.
std::int32_t Whole(const json& object, const char* field, const Bounds& bounds,
                   const std::string& where, std::int32_t fallback = -1) {
  const auto found = object.find(field);
  if (found == object.end()) {
    if (fallback >= 0) return fallback;
    Refuse(where, std::string("field '") + field + "' is missing");
  }
  if (!found->is_number_integer() || found->get<std::int64_t>() < bounds.least ||
      found->get<std::int64_t>() > bounds.most) {
    Refuse(where, std::string("field '") + field + "' is " + found->dump().substr(0, 40) +
                      "; allowed: a whole number from " + std::to_string(bounds.least) + " to " +
                      std::to_string(bounds.most));
  }
  return found->get<std::int32_t>();
}

const json& Member(const json& object, const char* field, json::value_t type,
                   const std::string& where) {
  const auto found = object.find(field);
  if (found == object.end() || found->type() != type) {
    Refuse(where, std::string("field '") + field + "' is missing or of a wrong type");
  }
  return *found;
}

// Refuses fields that would have no effect; `answers` only if no other one is unknown, as they
// follow from what is asked.
void RequireKnown(const json& object, std::initializer_list<std::string_view> known,
                  const std::string& where, std::initializer_list<std::string_view> answers = {}) {
  const auto in = [](std::initializer_list<std::string_view> names, const std::string& field) {
    return std::find(names.begin(), names.end(), field) != names.end();
  };
  const std::string* unknown = nullptr;
  for (auto item = object.begin(); item != object.end(); ++item) {
    if (in(known, item.key())) continue;
    if (unknown == nullptr || in(answers, *unknown)) unknown = &item.key();
  }
  if (unknown == nullptr) return;
  Refuse(where, fmt::format("field '{}' is unknown; allowed: {}", Printable(*unknown),
                            fmt::join(known, ", ")));
}

std::vector<std::int32_t> Script(const json& request, const char* field, const std::string& where) {
  std::vector<std::int32_t> drafts;
  const auto found = request.find(field);
  if (found == request.end()) return drafts;
  const auto fits = [](const json& number) {
    return number.is_number_integer() && number >= 0 && number <= kDraftsMax;
  };
  if (!found->is_array() || found->empty() || !std::all_of(found->begin(), found->end(), fits)) {
    Refuse(where,
           fmt::format("field '{}' must list numbers of drafts, 0 to {}", field, kDraftsMax));
  }
  return found->get<std::vector<std::int32_t>>();
}

// In a case with a batch time: the request is an arrival, and a batch is all that it needs.
ScheduleRequest ParseTimedRequest(const json& object, const std::string& where) {
  RequireKnown(object, {"id", "arrival_us", "priority"}, where);
  ScheduleRequest request;
  request.arrival_us = Whole(object, "arrival_us", {}, where);
  request.prompt_tokens = request.output_tokens = request.max_output_tokens = 1;
  request.priority = Whole(object, "priority", {}, where, 0);
  return request;
}

ScheduleRequest ParseRequest(const json& object, std::size_t index, bool timed,
                             const std::string& case_where) {
  const std::string where = case_where + ": requests[" + std::to_string(index) + "]";
  if (!object.is_object()) Refuse(where, "not an object");
  if (Whole(object, "id", {}, where) != static_cast<std::int32_t>(index)) {
    Refuse(where, "field 'id' must number the requests from 0 in order of arrival");
  }
  if (timed) return ParseTimedRequest(object, where);
  RequireKnown(object,
               {"id", "step", "prompt", "output", "max_new", "priority", "tenant", "predicted",
                "ignore_eos", "accept", "propose", "tokens", "cancel"},
               where);
  ScheduleRequest request;
  request.step = Whole(object, "step", {.least = 1}, where);
  request.prompt_tokens = Whole(object, "prompt", {1, kTokensMost}, where);
  request.output_tokens = Whole(object, "output", {1, kTokensMost}, where);
  request.max_output_tokens = Whole(object, "max_new", {request.output_tokens, kTokensMost}, where);
  request.priority = Whole(object, "priority", {}, where, 0);
  request.tenant = Whole(object, "tenant", {}, where, 0);
  if (object.contains("predicted")) {
    request.predicted_output_tokens = Whole(object, "predicted", {}, where);
  }
  if (const auto flag = object.find("ignore_eos"); flag != object.end()) {
    if (!flag->is_boolean()) Refuse(where, "field 'ignore_eos' must be true or false");
    request.ignore_eos = flag->get<bool>();
  }
  if (object.contains("cancel")) {
    request.cancel = Whole(object, "cancel", {.least = request.step}, where);
  }
  request.accept = Script(object, "accept", where);
  request.propose = Script(object, "propose", where);
  if (const auto tokens = object.find("tokens"); tokens != object.end()) {
    if (!tokens->is_array() || tokens->size() != static_cast<std::size_t>(request.prompt_tokens)) {
      Refuse(where, "field 'tokens' must list 'prompt' token ids");
    }
    for (const json& token : *tokens) {
      if (!token.is_number_integer())
        Refuse(where, "field 'tokens' holds something not a whole number");
      request.tokens.push_back(token.get<std::int64_t>());
    }
  }
  return request;
}

KvGroup ParseGroup(const json& object, const std::string& where) {
  if (!object.is_object()) Refuse(where, "not an object");
  RequireKnown(object, {"kind", "block_size", "layers", "window", "chunk", "mode"}, where);
  KvGroup group;
  group.block_size = Whole(object, "block_size", {1, kTokensMost}, where);
  group.layers = Whole(object, "layers", {.least = 1}, where);
  const std::string kind = Member(object, "kind", json::value_t::string, where).get<std::string>();
  if (kind == "window") {
    group.kind = KvGroupKind::kWindow;
    group.span = Whole(object, "window", {.least = 1}, where);
  } else if (kind == "chunked") {
    group.kind = KvGroupKind::kChunked;
    group.span = Whole(object, "chunk", {.least = 1}, where);
  } else if (kind == "state") {
    group.kind = KvGroupKind::kState;
    const json& mode = Member(object, "mode", json::value_t::string, where);
    if (mode != "none" && mode != "align") {
      Refuse(where, "field 'mode' is " + mode.dump() + "; allowed: none, align");
    }
    group.states = mode == "none" ? StateBlocks::kOne : StateBlocks::kAligned;
  } else if (kind != "full") {
    Refuse(where,
           "field 'kind' is " + json(kind).dump() + "; allowed: full, window, chunked, state");
  }
  return group;
}

KvGroups ParseGroups(const json& kv, const std::string& where) {
  KvGroups groups;
  groups.groups.clear();
  groups.scheduler_block = Whole(kv, "scheduler_block_size", {1, kTokensMost}, where);
  groups.hash_block = Whole(kv, "hash_block_size", {1, kTokensMost}, where);
  const json& list = Member(kv, "groups", json::value_t::array, where);
  if (list.empty()) Refuse(where, "field 'groups' is empty");
  for (std::size_t i = 0; i < list.size(); ++i) {
    groups.groups.push_back(ParseGroup(list[i], fmt::format("{}: groups[{}]", where, i)));
    if (groups.scheduler_block % groups.groups.back().block_size == 0) continue;
    Refuse(where, "field 'scheduler_block_size' is no multiple of every group's block_size");
  }
  return groups;
}

// `layers`: from what the groups were made; they alone matter.
void ParseMemory(const json& kv, const std::string& where, ScheduleCase& c) {
  RequireKnown(kv,
               {"block_size", "blocks", "cpu_blocks", "layers", "groups", "scheduler_block_size",
                "hash_block_size", "swa_blocks"},
               where + ": kv");
  if (kv.contains("groups")) c.kv_groups = ParseGroups(kv, where + ": kv");
  c.block_size = Whole(kv, "block_size", {1, kTokensMost}, where);
  c.blocks = Whole(kv, "blocks", {0, kBlocksMost}, where);
  c.host_blocks = Whole(kv, "cpu_blocks", {0, kBlocksMost}, where, 0);
  c.window_blocks = Whole(kv, "swa_blocks", {0, kBlocksMost}, where, 0);
}

void ParseRequests(const json& requests, const std::string& where, ScheduleCase& c) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    c.requests.push_back(ParseRequest(requests[i], i, c.batch_time.has_value(), where));
    if (i == 0) continue;
    const ScheduleRequest& before = c.requests[i - 1];
    const ScheduleRequest& request = c.requests[i];
    if (request.step < before.step || request.arrival_us < before.arrival_us) {
      Refuse(where, "requests[" + std::to_string(i) + "]: field '" +
                        (c.batch_time ? "arrival_us" : "step") +
                        "' is smaller than its predecessor's");
    }
  }
}

// Takes the parameters of speculation out of the policy's parameters.
SpeculationRules TakeSpeculation(json& params, const std::string& where) {
  SpeculationRules rules;
  if (!params.contains("num_speculative_tokens")) return rules;
  rules.num_speculative_tokens = Whole(params, "num_speculative_tokens", {1, kDraftsMax}, where);
  const std::string method =
      Member(params, "spec_method", json::value_t::string, where).get<std::string>();
  if (method == "eagle") {
    rules.method = SpecMethod::kEagle;
  } else if (method == "draft_model") {
    rules.method = SpecMethod::kDraftModel;
  } else if (method != "ngram") {
    Refuse(where, "field 'spec_method' is " + json(method).dump() +
                      "; allowed: ngram, eagle, draft_model");
  }
  // Derived parameters, which a case may state.
  const std::int32_t lookahead = rules.lookahead_tokens();
  const std::int32_t slots = rules.draft_slots();
  Whole(params, "num_lookahead_tokens", {lookahead, lookahead}, where, lookahead);
  Whole(params, "draft_slots", {slots, slots}, where, slots);
  for (const char* field :
       {"num_speculative_tokens", "spec_method", "num_lookahead_tokens", "draft_slots"}) {
    params.erase(field);
  }
  return rules;
}

// Checks the fields of a step that are read by name; the remaining ones are only compared.
void CheckStep(const json& step, const char* time, const std::string& where) {
  if (!step.is_object()) Refuse(where, "not an object");
  Whole(step, time, {.least = 0}, where);
  const auto work = step.find("work");
  if (work == step.end()) return;
  const auto is_item = [](const json& item) {
    return item.is_array() && item.size() == 3 && item[1].is_string();
  };
  if (!work->is_array() || !std::all_of(work->begin(), work->end(), is_item)) {
    Refuse(where, "field 'work' must list items of the form [request, \"P\" or \"D\", tokens]");
  }
}

}  // namespace

ScheduleCase ParseScheduleCase(const std::string& line, const std::string& where) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) Refuse(where, "not a JSON object on one line");
  RequireKnown(object,
               {"case", "policy", "variant", "grade", "params", "kv", "requests", "tags", "example",
                "truncated", "steps", "batches"},
               where, {"chosen"});
  ScheduleCase c;
  c.where = where;
  c.name = Member(object, "case", json::value_t::string, where).get<std::string>();
  c.policy = Member(object, "policy", json::value_t::string, where).get<std::string>();
  c.variant = object.contains("variant")
                  ? Member(object, "variant", json::value_t::string, where).get<std::string>()
                  : c.policy;
  c.params = Member(object, "params", json::value_t::object, where);
  if (c.params.contains("batch_time_us")) {
    c.batch_time = {Whole(c.params, "batch_time_us", {}, where + ": params"),
                    Whole(c.params, "batch_time_per_request_us", {}, where + ": params", 0)};
  } else {
    ParseMemory(Member(object, "kv", json::value_t::object, where), where, c);
  }
  // Elsewhere null is a default.
  if (const auto interval = c.params.find("prefix_cache_retention_interval");
      interval != c.params.end() && interval->is_null()) {
    *interval = -1;
  }
  c.speculation = TakeSpeculation(c.params, where);
  ParseRequests(Member(object, "requests", json::value_t::array, where), where, c);
  if (const auto cut = object.find("truncated"); cut != object.end()) {
    if (!cut->is_boolean()) Refuse(where, "field 'truncated' must be true or false");
    c.truncated = cut->get<bool>();
  }
  if (object.contains(c.decisions())) {
    c.steps = Member(object, c.decisions(), json::value_t::array, where);
    for (std::size_t i = 0; i < c.steps.size(); ++i) {
      CheckStep(c.steps[i], c.batch_time ? "t_us" : "it",
                fmt::format("{}: {}[{}]", where, c.decisions(), i));
    }
  }
  return c;
}

}  // namespace twin::run
