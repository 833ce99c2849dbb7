#include "apps/recommend/recommendation_json.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <variant>

#include <nlohmann/json.hpp>

#include "core/files/output_file.h"
#include "run/version.h"

namespace twin::run {
namespace {

using Json = nlohmann::ordered_json;

Json DefinedJson(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json IntervalJson(const Interval& interval, const char* value_name) {
  return {{value_name, DefinedJson(interval.value)},
          {"low", DefinedJson(interval.low)},
          {"high", DefinedJson(interval.high)}};
}

Json ParametersJson(const RecommendConfig& request, const CandidateSettings& choice) {
  Json json = Json::object();
  for (const auto& [name, value] : ParametersOf(request, choice))
    std::visit([&](const auto& one) { json[name] = one; }, value);
  return json;
}

Json ConfigurationJson(const RecommendedConfiguration& one, const RecommendConfig& request) {
  Json metrics = Json::object();
  for (const auto& [key, interval] : one.metrics) metrics[key] = IntervalJson(interval, "mean");
  Json margins = Json::array();
  for (const BoundMargin& margin : one.margins) {
    Json json{{"bound", margin.bound}};
    json.update(IntervalJson(margin.metric, "mean"));
    json["margin"] = DefinedJson(margin.margin);
    margins.push_back(std::move(json));
  }
  return {{"rank", one.rank},
          {"tied", one.tied},
          {"parameters", ParametersJson(request, one.candidate.choice)},
          {"value", IntervalJson(one.value, "mean")},
          {"price_per_hour",
           one.candidate.price_per_hour > 0 ? Json(one.candidate.price_per_hour) : Json()},
          {"kv_tokens", one.candidate.deployment.capacity.tokens()},
          {"metrics", std::move(metrics)},
          {"margins", std::move(margins)},
          {"quantised", one.candidate.quantised},
          {"command", one.command}};
}

Json LengthJson(const std::optional<LengthCheck>& check) {
  if (!check) return {};
  Json json{{"requests", check->requests}};
  json.update(IntervalJson(check->change, "change"));
  json["settled"] = check->settled;
  return json;
}

Json SensitivityJson(const SettingSensitivity& setting) {
  const Interval none{std::nan(""), std::nan(""), std::nan(""), 0};
  Json json{{"path", setting.path}, {"value", setting.value}};
  json.update(IntervalJson(setting.elasticity.value_or(none), "elasticity"));
  json["effects"] = Json::array();
  for (const SettingEffect& effect : setting.effects) {
    Json one{{"value", effect.value}};
    one.update(IntervalJson(effect.change, "change"));
    one["reason"] = effect.reason.empty() ? Json() : Json(effect.reason);
    json["effects"].push_back(std::move(one));
  }
  json["sentence"] = setting.sentence;
  return json;
}

Json SearchJson(const Recommendation& answer) {
  Json rungs = Json::array();
  for (const RecommendRung& rung : answer.rungs) {
    rungs.push_back({{"requests", rung.requests},
                     {"seeds", rung.seeds},
                     {"configurations", rung.configurations},
                     {"kept", rung.kept}});
  }
  return {{"candidates", answer.candidates},
          {"rungs", std::move(rungs)},
          {"warmup_requests", answer.warmup_requests},
          {"runs", answer.runs},
          {"confidence", kRecommendLevel}};
}

}  // namespace

std::string RecommendationJson(const Recommendation& answer, const RecommendConfig& request) {
  Json json{
      {"objective", answer.objective},
      {"unit", answer.value_unit},
      {"lower_is_better", answer.lower_is_better},
      {"load", {{"value", answer.load}, {"unit", answer.load_unit}}},
      {"configurations", Json::array()},
      {"first_again", answer.first_again ? IntervalJson(*answer.first_again, "mean") : Json()},
      {"length_check", LengthJson(answer.length_check)},
      {"sensitivity", Json::array()},
      {"pareto", Json::array()},
      {"rejected", Json::array()},
      {"assumptions", answer.assumptions},
      {"not_considered", answer.not_considered},
      {"left_out", answer.left_out},
      {"search", SearchJson(answer)},
      {"version", kVersion},
      {"commit", kCommit}};
  for (const RecommendedConfiguration& one : answer.configurations)
    json["configurations"].push_back(ConfigurationJson(one, request));
  for (const SettingSensitivity& setting : answer.sensitivity)
    json["sensitivity"].push_back(SensitivityJson(setting));
  for (const ParetoConfiguration& point : answer.pareto) {
    json["pareto"].push_back({{"rank", point.rank},
                              {"mean_ttft_ms", DefinedJson(point.mean_ttft_ms)},
                              {"mean_tpot_ms", DefinedJson(point.mean_tpot_ms)},
                              {"value", DefinedJson(point.value)}});
  }
  for (const RejectedSettings& one : answer.rejected) {
    json["rejected"].push_back(
        {{"configuration", ParametersJson(request, one.choice)}, {"reason", one.reason}});
  }
  return json.dump(2) + "\n";
}

std::filesystem::path LogIn(const std::filesystem::path& out) { return out / "evaluations.jsonl"; }

void WriteRecommendation(const Recommendation& answer, const RecommendConfig& request,
                         const std::filesystem::path& out) {
  MakeOutputFolder(out / "configurations");
  WriteFile(out / "recommendation.json", RecommendationJson(answer, request));
  for (const RecommendedConfiguration& one : answer.configurations) {
    WriteFile(out / "configurations" / fmt::format("{}.textproto", one.rank),
              WriteResolved(one.experiment));
  }
}

}  // namespace twin::run
