#include "apps/recommend/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>

#include "apps/recommend/server_settings.h"
#include "config/servers/servers.h"
#include "core/check.h"
#include "core/input_error.h"
#include "core/number_text.h"

namespace twin::run {
namespace {

constexpr double kMemoryStep = 0.05;
constexpr double kMemoryMax = 0.98;

void AddVariant(SettingVariants& variants, CandidateSettings choice, std::string value) {
  variants.choices.push_back(std::move(choice));
  variants.values.push_back(std::move(value));
}

// Half and twice as much.
SettingVariants CountVariants(const char* path, const CandidateSettings& choice,
                              std::optional<std::int64_t> CandidateSettings::*member) {
  const std::int64_t own = *(choice.*member);
  SettingVariants variants{.path = path, .value = std::to_string(own)};
  for (const std::int64_t value : {own / 2, own * 2}) {
    if (value < 1) continue;
    CandidateSettings other = choice;
    other.*member = value;
    AddVariant(variants, std::move(other), std::to_string(value));
    variants.ratios.push_back(static_cast<double>(value) / static_cast<double>(own));
  }
  return variants;
}

SettingVariants MemoryVariants(const CandidateSettings& choice) {
  const double own = *choice.gpu_memory_utilization;
  SettingVariants variants{.path = "gpu_memory_utilization", .value = ShortestText(own)};
  for (const double wanted : {own - kMemoryStep, std::min(own + kMemoryStep, kMemoryMax)}) {
    const double value = std::round(wanted * 1000) / 1000;
    if (value <= 0 || value == own) continue;
    CandidateSettings other = choice;
    other.gpu_memory_utilization = value;
    AddVariant(variants, std::move(other), ShortestText(value));
    variants.ratios.push_back(value / own);
  }
  return variants;
}

// Half and twice as much.
SettingVariants RatioVariants(const CandidateSettings& choice) {
  const double own = *choice.waiting_served_ratio;
  SettingVariants variants{.path = "waiting_served_ratio", .value = ShortestText(own)};
  for (const double factor : {0.5, 2.0}) {
    if (own == 0) break;
    CandidateSettings other = choice;
    other.waiting_served_ratio = factor * own;
    AddVariant(variants, std::move(other), ShortestText(factor * own));
    variants.ratios.push_back(factor);
  }
  return variants;
}

std::string LayoutText(const Layout& layout) {
  std::string text =
      fmt::format("tensor_parallel {}, pipeline_parallel {}, replicas {}",
                  layout.parallelism.tensor, layout.parallelism.pipeline, layout.replicas);
  if (layout.ffn) {
    text +=
        fmt::format(", attention_groups {}, ffn_devices {}, micro_batches {}",
                    layout.ffn->attention_groups, layout.ffn->devices, layout.ffn->micro_batches);
  }
  if (layout.prefill_replicas == 0) return text;
  return fmt::format("{} ({} of them prefill)", text, layout.prefill_replicas);
}

void AddWords(const char* path, const std::vector<std::string>& given,
              std::initializer_list<const char*> usual, const CandidateSettings& choice,
              std::optional<std::string> CandidateSettings::*member,
              std::vector<SettingVariants>& all) {
  if (!(choice.*member)) return;
  SettingVariants variants{.path = path, .value = *(choice.*member)};
  std::vector<std::string> words = given;
  if (words.empty()) words.assign(usual.begin(), usual.end());
  for (const std::string& word : words) {
    if (word == choice.*member) continue;
    CandidateSettings other = choice;
    other.*member = word;
    AddVariant(variants, std::move(other), word);
  }
  all.push_back(std::move(variants));
}

// The first values that the request names for settings that another server did not have.
void AddNamedSettings(const OpenSettingsConfig& open, CandidateSettings& choice) {
  ForEachOpenSetting([&](Setting setting, auto own, auto given) {
    const auto& values = open.*given;
    if (choice.*own || values.empty() || FieldOfServer(choice.server, setting).empty()) return;
    choice.*own = values.front();
  });
}

void AddWordVariants(const CandidateSpace& space, const CandidateSettings& choice,
                     std::vector<SettingVariants>& all) {
  const OpenSettingsConfig& open = space.request().settings;
  AddWords("schedule_policy", open.schedule_policy, {"fcfs", "lpm"}, choice,
           &CandidateSettings::schedule_policy, all);
  AddWords("context_chunking_policy", open.context_chunking_policy,
           {"none", "FIRST_COME_FIRST_SERVED"}, choice, &CandidateSettings::context_chunking_policy,
           all);
  SettingVariants layouts{.path = "layout", .value = LayoutText(choice.layout)};
  for (const Layout& layout : space.LayoutsFor(choice)) {
    if (layout == choice.layout) continue;
    CandidateSettings other = choice;
    other.layout = layout;
    AddVariant(layouts, std::move(other), LayoutText(layout));
  }
  all.push_back(std::move(layouts));
  const auto format_text = [](std::optional<DType> type) {
    return std::string(type ? Name(*type) : "as stored");
  };
  SettingVariants types{.path = "weight_dtype", .value = format_text(choice.weight_dtype)};
  for (const std::optional<DType> type : space.DtypesOf(choice.model, choice.hardware)) {
    if (type == choice.weight_dtype) continue;
    CandidateSettings other = choice;
    other.weight_dtype = type;
    AddVariant(types, std::move(other), format_text(type));
  }
  all.push_back(std::move(types));
  SettingVariants servers{.path = "server", .value = choice.server};
  for (const std::string& server : space.ServersOf()) {
    if (server == choice.server) continue;
    // Shares of memory mean different things to different servers: each has its own.
    CandidateSettings other = choice;
    other.server = server;
    if (open.gpu_memory_utilization.empty()) other.gpu_memory_utilization.reset();
    DropForeignSettings(other);
    AddNamedSettings(open, other);
    AddVariant(servers, std::move(other), server);
  }
  all.push_back(std::move(servers));
}

Interval ChangeOf(const std::optional<RootOfMean>& value, const RootOfMean& own) {
  if (!value) return kNoInterval;
  const Interval ratio = CompareRoots(*value, own, kRecommendLevel).ratio;
  return {ratio.value - 1, ratio.low - 1, ratio.high - 1, ratio.n};
}

std::optional<Interval> ElasticityOf(const SettingVariants& variants,
                                     const std::vector<std::optional<RootOfMean>>& values,
                                     const RootOfMean& own) {
  if (variants.ratios.empty()) return std::nullopt;
  const RootOfMean* at_low = &own;
  const RootOfMean* at_high = &own;
  double low = 1;
  double high = 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    if (variants.ratios[i] < low) {
      low = variants.ratios[i];
      at_low = &*values[i];
    }
    if (variants.ratios[i] > high) {
      high = variants.ratios[i];
      at_high = &*values[i];
    }
  }
  if (low == high) return std::nullopt;
  const Interval ratio = CompareRoots(*at_high, *at_low, kRecommendLevel).ratio;
  const double width = std::log(high / low);
  return Interval{std::log(ratio.value) / width, std::log(ratio.low) / width,
                  std::log(ratio.high) / width, ratio.n};
}

std::string PercentText(double share) {
  const double percent = std::round(1000 * share) / 10;
  return fmt::format("{:+.1f} %", percent == 0 ? 0.0 : percent);
}

std::string WhatIsDone(const SettingVariants& variants, std::size_t i) {
  if (variants.ratios.empty() || variants.path == "gpu_memory_utilization")
    return fmt::format("{} {} instead of {}", variants.path, variants.values[i], variants.value);
  return fmt::format("{} {}", variants.ratios[i] > 1 ? "doubling" : "halving", variants.path);
}

std::string EffectText(const SettingVariants& variants, std::size_t i, const Interval& change,
                       const std::string& objective, double tolerance) {
  const std::string done = WhatIsDone(variants, i);
  if (std::isnan(change.value)) return fmt::format("{} does not run", done);
  const bool nothing = std::max(std::abs(change.low), std::abs(change.high)) <= tolerance;
  return fmt::format("{} changes {} ({} [{}, {}])", done, nothing ? "nothing" : objective,
                     PercentText(change.value), PercentText(change.low), PercentText(change.high));
}

}  // namespace

std::vector<SettingVariants> VariantsOf(const CandidateSpace& space,
                                        const CandidateSettings& choice) {
  const OpenSettingsConfig& open = space.request().settings;
  std::vector<SettingVariants> all;
  if (open.token_budget.size() != 1 && choice.token_budget)
    all.push_back(CountVariants("token_budget", choice, &CandidateSettings::token_budget));
  if (open.max_num_seqs.size() != 1 && choice.max_num_seqs)
    all.push_back(CountVariants("max_num_seqs", choice, &CandidateSettings::max_num_seqs));
  if (open.max_batch_total_tokens.size() > 1 && choice.max_batch_total_tokens) {
    all.push_back(CountVariants("max_batch_total_tokens", choice,
                                &CandidateSettings::max_batch_total_tokens));
  }
  if (open.waiting_served_ratio.size() != 1 && choice.waiting_served_ratio)
    all.push_back(RatioVariants(choice));
  if (open.gpu_memory_utilization.size() != 1) all.push_back(MemoryVariants(choice));
  AddWordVariants(space, choice, all);
  std::erase_if(all, [](const SettingVariants& one) { return one.choices.empty(); });
  return all;
}

std::vector<Candidate> MakeVariants(const CandidateSpace& space,
                                    const std::vector<SettingVariants>& settings,
                                    const Candidate& own, CandidateEvaluator& evaluator,
                                    CostCache& costs, std::vector<std::string>& reasons) {
  std::vector<Candidate> made;
  for (const SettingVariants& setting : settings) {
    for (const CandidateSettings& choice : setting.choices) {
      reasons.emplace_back();
      try {
        made.push_back(space.Make(choice, costs));
      } catch (const InputError& error) {
        reasons.back() = error.what();
      }
    }
  }
  // Judged together with the configuration itself, so that variants which refuse what it serves are
  // rejected.
  made.push_back(own);
  const std::vector<std::string> hopeless = evaluator.RejectInfeasible(made);
  std::vector<Candidate> running;
  std::size_t next = 0;
  for (std::string& reason : reasons) {
    if (!reason.empty()) continue;
    reason = hopeless[next];
    if (reason.empty()) running.push_back(std::move(made[next]));
    ++next;
  }
  return running;
}

SettingSensitivity SensitivityOf(const SettingVariants& variants,
                                 const std::vector<std::optional<RootOfMean>>& values,
                                 const RootOfMean& own, const std::string& objective,
                                 double tolerance) {
  CHECK(values.size() == variants.choices.size());
  SettingSensitivity result{.path = variants.path,
                            .value = variants.value,
                            .elasticity = ElasticityOf(variants, values, own)};
  for (std::size_t i = 0; i < values.size(); ++i) {
    result.effects.push_back({.value = variants.values[i], .change = ChangeOf(values[i], own)});
    if (i > 0) result.sentence += "; ";
    result.sentence += EffectText(variants, i, result.effects.back().change, objective, tolerance);
  }
  return result;
}

}  // namespace twin::run
