#include "apps/experiment_options/option_experiment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/experiment_options/option_names.h"
#include "apps/experiment_options/option_values.h"
#include "apps/experiment_options/range_ratio.h"
#include "apps/experiment_options/server_fields.h"
#include "apps/experiment_options/start_checks.h"
#include "config/models/named_model.h"
#include "config/policy_file.h"
#include "config/servers/servers.h"
#include "core/input_error.h"
#include "core/letter_case.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "traces/trace_format.h"

namespace twin::apps {
namespace {

namespace fs = std::filesystem;

// As vLLM's benchmark draws requests.
constexpr std::int64_t kPromptTokens = 1024;
constexpr std::int64_t kOutputTokens = 128;
constexpr std::int64_t kRequests = 1000;
constexpr const char* kNotGiven = "not given";
constexpr const char* kOpenLoad =
    "the load is open; allowed: --rate R (requests per second), --concurrency N (users who wait "
    "for their answers) or --trace FILE";

// Writes the fields of an experiment, part by part. Borrows the options.
class FieldWriter {
 public:
  FieldWriter(const GivenOptions& asked, const std::string& command)
      : asked_(asked),
        values_(asked, command),
        server_fields_(asked_, values_, model_, server_, made_) {}

  OptionExperiment Write() {
    RefuseForeign();
    WriteSystem();
    WriteLoad();
    WriteLengths();
    WriteSize();
    WriteSeed();
    Set("cost", "profile");
    server_fields_.WriteFlags();
    WriteGoals();
    Set("name", Name());
    return std::move(made_);
  }

 private:
  void Set(const std::string& path, std::string_view value) {
    made_.changes.push_back(fmt::format("{}={}", path, value));
  }
  void Choose(const std::string& path, std::string_view value, const std::string& reason) {
    Set(path, value);
    made_.reasons[path] = reason;
  }
  void Choose(const std::string& path, const NamedPart& part) {
    Set(path, part.name);
    if (!part.note.empty()) made_.reasons[path] = part.note;
  }
  [[nodiscard]] const GivenOption* Find(ExperimentOption which) const { return asked_.Find(which); }
  // Sets `path` to the whole number of an option, if it was given.
  void SetCount(ExperimentOption which, const std::string& path) {
    if (const auto count = values_.Count(which)) Set(path, std::to_string(*count));
  }

  void RefuseForeign();
  // Value of --random-range-ratio. REQUIRES: it was given.
  [[nodiscard]] double RangeShare() const {
    return values_.NumberIn(*Find(ExperimentOption::kRangeRatio), 0, 1, "a share from 0 to 1");
  }
  void WriteSystem();
  void WriteSeed();
  void WriteServer();
  void RefuseLooseLoad();
  void WriteLoad();
  void WriteTrace(const GivenOption& trace);
  void WriteArrivals(const GivenOption* trace);
  void WriteRate(const GivenOption& rate);
  void WriteRamp();
  void WriteUsers();
  void WriteLengths();
  void WriteLength(const std::string& shape, ExperimentOption length, ExperimentOption range,
                   std::int64_t otherwise);
  void WriteSize();
  void WriteGoals();
  void WriteGoal(const std::string& option, const std::string& key, const std::string& ms);
  void NameLoad(const std::string& arrivals) {
    load_ += fmt::format("{}{}", load_.empty() ? "" : "_", arrivals);
  }
  [[nodiscard]] std::string Name() const;

  const GivenOptions& asked_;
  OptionValues values_;
  OptionExperiment made_;
  std::string model_;  // names for the experiment
  std::string device_;
  std::string server_;
  ServerFields server_fields_;
  std::string load_;  // in the name of the experiment; begins with the trace
};

// Options of other programs whose meaning differs from what this program could do with them.
void FieldWriter::RefuseForeign() {
  if (const GivenOption* const ratio = Find(ExperimentOption::kRangeRatio)) {
    const std::int64_t given = values_.Count(ExperimentOption::kInputLen).value_or(kPromptTokens);
    const double share = RangeShare();
    const auto [low, high] = RatioRange(kVllmServer, share, given);
    const auto [least, most] = RatioRange(kSglangServer, share, given);
    if (BenchServer(asked_) == nullptr) {
      values_.Refuse(
          ratio->name,
          fmt::format("vLLM's bench means {0} to {1} tokens, SGLang's {2} to {3}; allowed: "
                      "--input-range {0},{1} or --input-range {2},{3}, or with --backend",
                      low, high, least, most));
    }
  }
  if (const GivenOption* const horizon = Find(ExperimentOption::kHorizon)) {
    values_.Refuse(horizon->name, "counts microseconds; allowed: --duration, in seconds");
  }
  if (const GivenOption* const dataset = Find(ExperimentOption::kDataset)) {
    if (dataset->value != "random" && Find(ExperimentOption::kTrace) == nullptr) {
      values_.Refuse(dataset->name,
                     fmt::format("is {}, which is not here; allowed: random with --input-len and "
                                 "--output-len, --preset conversation or code, or --trace FILE",
                                 Printable(dataset->value)));
    }
  }
}

void FieldWriter::WriteSystem() {
  const GivenOption* const model = Find(ExperimentOption::kModel);
  if (model == nullptr) {
    values_.Refuse("--model",
                   "missing; allowed: a model of twinserve doctor --list models, such as "
                   "llama-3.1-8b, its id on huggingface.co, its folder or its config.json");
  }
  const GivenOption* const device = Find(ExperimentOption::kHardware);
  if (device == nullptr) {
    values_.Refuse("--hardware",
                   "missing; allowed: a device of twinserve doctor --list hardware, such as h100");
  }
  const NamedPart named_device = NameDevice(values_.Where(device->name), device->value);
  const NamedPart named_model = NameModel(values_.Where(model->name), model->value);
  made_.device_note = named_device.note;
  model_ = named_model.name;
  device_ = named_device.name;
  WriteServer();
  Choose("system.model", named_model);
  Choose("system.hardware", named_device);
  server_fields_.WriteParallelism();
  if (const GivenOption* const policy = Find(ExperimentOption::kPolicy)) {
    made_.changes.push_back(PolicyChange(policy->value));
  }
  if (const GivenOption* const engine = Find(ExperimentOption::kEngine)) {
    made_.changes.push_back(
        EngineChange(engine->value, Find(ExperimentOption::kPolicy) != nullptr));
  }
}

void FieldWriter::WriteSeed() {
  if (const GivenOption* const seed = Find(ExperimentOption::kSeed)) {
    return Set("seed", std::to_string(values_.NaturalNumber(*seed)));
  }
  Choose("seed", "1", kNotGiven);
  made_.open.emplace_back("seed");
}

void FieldWriter::WriteServer() {
  const GivenOption asked = NamedServer(asked_);
  const bool given = !asked.value.empty();
  const NamedPart named =
      NameServer(values_.Where(asked.name), given ? asked.value : std::string(kVllmServer.title));
  server_ = named.name;
  made_.server_note = given ? named.note : "";
  if (!given) made_.open.emplace_back("server");
  Choose("system.server", given ? named : NamedPart{named.name, "not given: the newest vLLM"});
}

void FieldWriter::RefuseLooseLoad() {
  const auto needs = [&](ExperimentOption which, ExperimentOption other, const char* what) {
    const GivenOption* const option = Find(which);
    if (option != nullptr && Find(other) == nullptr) values_.Refuse(option->name, what);
  };
  needs(ExperimentOption::kBurstiness, ExperimentOption::kRate,
        "has no rate; allowed: with --rate");
  needs(ExperimentOption::kRateScale, ExperimentOption::kTrace,
        "has no trace; allowed: with --trace FILE");
  needs(ExperimentOption::kFixedSchedule, ExperimentOption::kTrace,
        "has no trace; allowed: with --trace FILE");
  const GivenOption* const rate = Find(ExperimentOption::kRate);
  const GivenOption* const ramp = values_.FindRamp();
  if (rate != nullptr && ramp != nullptr) {
    values_.Refuse(ramp->name, fmt::format("the load has a rate; allowed: one of {}, {}",
                                           rate->name, ramp->name));
  }
}

void FieldWriter::WriteLoad() {
  RefuseLooseLoad();
  const GivenOption* const trace = Find(ExperimentOption::kTrace);
  if (trace == nullptr) return WriteArrivals(nullptr);
  WriteTrace(*trace);
  if (!OpenTrace(trace->value)->has_arrivals()) return WriteArrivals(trace);
  const GivenOption* const rate =
      Find(ExperimentOption::kRate) ? Find(ExperimentOption::kRate) : values_.FindRamp();
  if (rate != nullptr) {
    values_.Refuse(rate->name,
                   fmt::format("{} has times of its own; allowed: {} alone, --rate-scale X, or "
                               "--rate with a trace without times",
                               trace->value, trace->name));
  }
  SetCount(ExperimentOption::kConcurrency, "workload.max_in_flight");
}

void FieldWriter::WriteTrace(const GivenOption& trace) {
  for (const ExperimentOption length :
       {ExperimentOption::kInputLen, ExperimentOption::kInputRange, ExperimentOption::kOutputLen,
        ExperimentOption::kOutputRange, ExperimentOption::kPrefixLen, ExperimentOption::kPreset}) {
    const GivenOption* const given = Find(length);
    if (given == nullptr) continue;
    values_.Refuse(given->name, fmt::format("lengths come from {}; allowed: one of {}, {}",
                                            trace.value, trace.name, given->name));
  }
  Set("workload.trace.path", fs::absolute(trace.value).lexically_normal().string());
  load_ = fs::path(trace.value).stem().string();
  if (const GivenOption* const scale = Find(ExperimentOption::kRateScale)) {
    Set("workload.trace.rate_scale", ShortestText(values_.NumberAbove0(*scale)));
  }
}

// When requests come; `trace`: the one that leaves it open, or null.
void FieldWriter::WriteArrivals(const GivenOption* trace) {
  if (values_.FindRamp() != nullptr) {
    WriteRamp();
  } else if (const GivenOption* const rate = Find(ExperimentOption::kRate)) {
    WriteRate(*rate);
  } else if (Find(ExperimentOption::kConcurrency) != nullptr) {
    return WriteUsers();
  } else if (trace == nullptr) {
    values_.RefuseAll(kOpenLoad);
  } else {
    values_.Refuse(trace->name, fmt::format("{} has no times; allowed: with --rate R or "
                                            "--concurrency N",
                                            trace->value));
  }
  if (const GivenOption* const think = Find(ExperimentOption::kThink)) {
    values_.Refuse(think->name, "nobody waits for an answer; allowed: with --concurrency N alone");
  }
  SetCount(ExperimentOption::kConcurrency, "workload.max_in_flight");
}

void FieldWriter::WriteRate(const GivenOption& rate) {
  if (rate.value == "inf") {
    NameLoad("at_once");
    return Set("workload.arrivals.kind", "all_at_once");
  }
  const auto value = NumberFrom<double>(rate.value);
  if (!value || !(*value > 0) || !std::isfinite(*value)) {
    values_.Refuse(rate.name, fmt::format("is {}; allowed: a number above 0, or inf (all at once)",
                                          Printable(rate.value)));
  }
  const GivenOption* const burstiness = Find(ExperimentOption::kBurstiness);
  const double shape = burstiness != nullptr ? values_.NumberAbove0(*burstiness) : 1;
  Set("workload.arrivals.kind", shape == 1 ? "poisson" : "gamma");
  Set("workload.arrivals.rate", ShortestText(*value));
  if (shape != 1) Set("workload.arrivals.cv", ShortestText(1 / std::sqrt(shape)));
  NameLoad("r" + ShortestText(*value));
}

void FieldWriter::WriteRamp() {
  const OptionValues::Ramp ramp =
      values_.ReadRamp(values_.Count(ExperimentOption::kRequests).value_or(kRequests));
  Set("workload.arrivals.kind", "ramp");
  Set("workload.arrivals.rate", ShortestText(ramp.from));
  Set("workload.arrivals.rate_to", ShortestText(ramp.to));
  Set("workload.arrivals.ramp_s", ShortestText(ramp.seconds));
  NameLoad(fmt::format("ramp{}_{}", ShortestText(ramp.from), ShortestText(ramp.to)));
}

void FieldWriter::WriteUsers() {
  Set("workload.arrivals.kind", "closed_loop");
  SetCount(ExperimentOption::kConcurrency, "workload.arrivals.users");
  if (const GivenOption* const think = Find(ExperimentOption::kThink)) {
    const double seconds = values_.NumberIn(*think, 0, 1e9, "seconds from 0 on");
    Set("workload.arrivals.think.mean_s", ShortestText(seconds));
  }
  NameLoad(fmt::format("c{}", *values_.Count(ExperimentOption::kConcurrency)));
}

void FieldWriter::WriteLengths() {
  if (Find(ExperimentOption::kTrace) != nullptr) return;
  if (const GivenOption* const preset = Find(ExperimentOption::kPreset)) {
    for (const ExperimentOption length :
         {ExperimentOption::kInputLen, ExperimentOption::kInputRange, ExperimentOption::kOutputLen,
          ExperimentOption::kOutputRange}) {
      const GivenOption* const given = Find(length);
      if (given == nullptr) continue;
      values_.Refuse(given->name,
                     fmt::format("lengths come from the preset; allowed: one of {}, {}",
                                 preset->name, given->name));
    }
    if (preset->value != "conversation" && preset->value != "code") {
      values_.Refuse(preset->name,
                     fmt::format("is {}; allowed: conversation, code", Printable(preset->value)));
    }
    Set("workload.preset", preset->value);
  } else {
    WriteLength("prompt", ExperimentOption::kInputLen, ExperimentOption::kInputRange,
                kPromptTokens);
    WriteLength("output", ExperimentOption::kOutputLen, ExperimentOption::kOutputRange,
                kOutputTokens);
    const bool none = !Find(ExperimentOption::kInputLen) && !Find(ExperimentOption::kInputRange) &&
                      !Find(ExperimentOption::kOutputLen) && !Find(ExperimentOption::kOutputRange);
    if (none) made_.open.emplace_back("lengths");
  }
  const GivenOption* const given_prefix = Find(ExperimentOption::kPrefixLen);
  if (given_prefix == nullptr || given_prefix->value == "0") return;
  if (const auto prefix = values_.Count(ExperimentOption::kPrefixLen)) {
    Set("workload.shape.shared_prefix.prompts", "1");
    Set("workload.shape.shared_prefix.tokens", std::to_string(*prefix));
  }
}

// Clients ask for at most the longest output, so that no policy knows the length of an answer.
void FieldWriter::WriteLength(const std::string& shape, ExperimentOption length,
                              ExperimentOption range, std::int64_t otherwise) {
  const std::string path = "workload.shape." + shape;
  const GivenOption* const given = Find(length);
  const GivenOption* const given_range = Find(range);
  if (given != nullptr && given_range != nullptr) {
    values_.Refuse(given_range->name, fmt::format("the length is fixed; allowed: one of {}, {}",
                                                  given->name, given_range->name));
  }
  std::int64_t longest = given != nullptr ? values_.CountOf(*given) : otherwise;
  const bool has_ratio = Find(ExperimentOption::kRangeRatio) != nullptr;
  const auto ratio_range = has_ratio ? RatioRange(*BenchServer(asked_), RangeShare(), longest)
                                     : std::pair(longest, longest);
  if (given_range != nullptr || ratio_range.first < ratio_range.second) {
    const auto [low, high] = given_range != nullptr ? values_.Range(*given_range) : ratio_range;
    Set(path + ".kind", "uniform");
    Set(path + ".min", std::to_string(low));
    Set(path + ".max", std::to_string(high));
    longest = high;
  } else {
    Set(path + ".kind", "fixed");
    Choose(path + ".value", {std::to_string(longest), given != nullptr ? "" : kNotGiven});
  }
  if (shape != "output") return;
  Choose("workload.max_output.kind", "fixed", "no policy learns the length of an answer");
  Set("workload.max_output.value", std::to_string(longest));
}

void FieldWriter::WriteSize() {
  if (const GivenOption* const duration = Find(ExperimentOption::kDuration)) {
    Set("workload.duration_s", ShortestText(values_.NumberAbove0(*duration)));
  }
  SetCount(ExperimentOption::kRequests, "workload.requests");
  if (Find(ExperimentOption::kRequests) || Find(ExperimentOption::kDuration) ||
      Find(ExperimentOption::kTrace))
    return;
  Choose("workload.requests", std::to_string(kRequests), kNotGiven);
  made_.open.emplace_back("requests");
}

void FieldWriter::WriteGoals() {
  for (const std::string& goal : asked_.goals) {
    const std::size_t colon = goal.find(':');
    const bool has_both = colon != std::string::npos && colon + 1 < goal.size();
    WriteGoal("--goodput", goal.substr(0, colon), has_both ? goal.substr(colon + 1) : "");
  }
  for (const auto& [which, key] :
       {std::pair(ExperimentOption::kTtft, "ttft"), std::pair(ExperimentOption::kTpot, "tpot")}) {
    if (const GivenOption* const goal = Find(which)) WriteGoal(goal->name, key, goal->value);
  }
}

void FieldWriter::WriteGoal(const std::string& option, const std::string& key,
                            const std::string& ms) {
  const auto bound = NumberFrom<double>(ms);
  const bool known = key == "ttft" || key == "tpot" || key == "e2el";
  if (!known || !bound || !(*bound > 0) || !std::isfinite(*bound)) {
    values_.Refuse(option, fmt::format("is {}; allowed: ttft, tpot or e2el with milliseconds above "
                                       "0, as in ttft:200",
                                       Printable(ms.empty() ? key : key + ":" + ms)));
  }
  Set(fmt::format("slo.{}_s", key), ShortestText(*bound / 1000));
}

std::string FieldWriter::Name() const {
  const auto plain = [](const std::string& name) {
    fs::path path(name);
    if (path.filename() == "config.json") path = path.parent_path();
    return path.extension() == ".textproto" ? path.stem().string() : path.filename().string();
  };
  return fmt::format("{}_{}_{}", plain(model_), plain(device_), load_);
}

}  // namespace

OptionExperiment ExperimentOf(const GivenOptions& asked, const std::string& command) {
  return FieldWriter(asked, command).Write();
}

ExperimentTemplate TemplateOf(const OptionExperiment& experiment,
                              const std::vector<std::string>& changes, const std::string& command) {
  ExperimentTemplate made = ExperimentTemplate::FromText("", command);
  made.Change(experiment.changes, fs::current_path());
  made.Change(changes, fs::current_path());
  return made;
}

ExperimentConfig ReadOptions(const OptionExperiment& experiment,
                             const std::vector<std::string>& changes, const GivenOptions& asked,
                             const std::string& command) {
  const ExperimentTemplate made = TemplateOf(experiment, changes, command);
  ExperimentConfig config = made.With({}, {});
  RequireFit(made, config, command);
  const GivenOption* length = nullptr;
  for (const ExperimentOption which :
       {ExperimentOption::kInputLen, ExperimentOption::kInputRange, ExperimentOption::kOutputLen,
        ExperimentOption::kOutputRange}) {
    if (length == nullptr) length = asked.Find(which);
  }
  RequireShortRequests(config,
                       fmt::format("{}: {}", command, length ? length->name : "--input-len"));
  return config;
}

std::vector<std::string> SortedOptions(const GivenOptions& asked, const OptionExperiment& made) {
  std::vector<std::string> without_effect = asked.ignored;
  const GivenOption* const backend = asked.Find(ExperimentOption::kBackend);
  if (backend != nullptr && backend->value.starts_with("openai")) {
    without_effect.push_back(backend->name);
  }
  const GivenOption* const dataset = asked.Find(ExperimentOption::kDataset);
  if (dataset != nullptr) without_effect.push_back(dataset->name);
  const auto append = [](std::vector<std::string>& list, const std::vector<std::string>& more) {
    list.insert(list.end(), more.begin(), more.end());
  };
  append(without_effect, made.without_effect);
  std::vector<std::string> not_simulated = asked.not_simulated;
  append(not_simulated, made.not_simulated);
  std::vector<std::string> simulated;
  for (const std::string& name : asked.launched) {
    const auto is_named = [&](std::string_view other) {
      return other.substr(0, other.find(' ')) == name;
    };
    if (std::ranges::none_of(without_effect, is_named) &&
        std::ranges::none_of(not_simulated, is_named)) {
      simulated.push_back(name);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [title, names] :
       {std::pair("simulated", simulated), std::pair("without effect here", without_effect),
        std::pair("not simulated and may matter", not_simulated)}) {
    if (!names.empty()) lines.push_back(fmt::format("{}: {}", title, fmt::join(names, ", ")));
  }
  return lines;
}

}  // namespace twin::apps
