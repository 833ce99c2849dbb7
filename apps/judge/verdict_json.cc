#include "apps/judge/verdict_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include <nlohmann/json.hpp>

#include "run/record/table.h"
#include "run/version.h"

namespace twin::apps {
namespace {

using Json = nlohmann::ordered_json;

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

const char* Word(run::Sign sign) {
  switch (sign) {
    case run::Sign::kPositive:
      return "better";
    case run::Sign::kNegative:
      return "worse";
    case run::Sign::kUndecided:
      break;
  }
  return "undecided";
}

// Where the gains come from and who pays for them.
std::string Hint(const run::Verdict& verdict) {
  std::vector<std::string> parts;
  const auto best = std::ranges::max_element(verdict.cells, {}, &run::CellScore::log_ratio);
  if (best != verdict.cells.end() && best->log_ratio > 0.01) {
    parts.push_back(fmt::format("the largest gain is in {} on {} at {:.0f} % load",
                                best->cell->workload, best->cell->system, 100 * best->cell->load));
  }
  const auto worst = std::ranges::min_element(verdict.cells, {}, &run::CellScore::log_ratio);
  if (worst != verdict.cells.end() && worst->log_ratio < -0.01) {
    parts.push_back(fmt::format("it loses in {} on {} at {:.0f} % load", worst->cell->workload,
                                worst->cell->system, 100 * worst->cell->load));
  }
  for (const run::Trade& trade : verdict.trades) {
    parts.push_back(fmt::format("{} takes {:.0f} % longer", trade.requests,
                                100 * (std::exp(trade.log_ratio) - 1)));
  }
  if (verdict.charged_score) {
    parts.push_back(
        fmt::format("planning takes up to {:.1f} ms a step: charged as host time, the "
                    "score is {:.3f}",
                    verdict.planning_p99_us / 1000, verdict.charged_score.value_or(std::nan(""))));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

Json AgainstJson(const run::AgainstReference& against) {
  return {{"name", against.name},
          {"ratio", Number(std::exp(against.log_ratio.value))},
          {"low", Number(std::exp(against.log_ratio.low))},
          {"high", Number(std::exp(against.log_ratio.high))},
          {"pairs", against.pairs},
          {"verdict", Word(against.sign)}};
}

void PrintJudged(std::ostream& out, const VerdictHeader& header, const run::Verdict& verdict) {
  if (verdict.failure) {
    out << fmt::format("{}: invalid ({}): {}\n", header.policy, verdict.failure->gate,
                       verdict.failure->reason);
    return;
  }
  if (verdict.interrupted) {
    out << fmt::format("{}: interrupted\n", header.policy);
    return;
  }
  out << fmt::format("{}: valid, score {:.3f} [{:.3f}, {:.3f}]\n", header.policy,
                     verdict.against.front().log_ratio.value, verdict.against.front().log_ratio.low,
                     verdict.against.front().log_ratio.high);
  std::vector<std::vector<std::string>> rows{
      {"against", "ratio", "low", "high", "pairs", "verdict"}};
  for (const run::AgainstReference& against : verdict.against) {
    rows.push_back({against.name, fmt::format("{:.3f}", std::exp(against.log_ratio.value)),
                    fmt::format("{:.3f}", std::exp(against.log_ratio.low)),
                    fmt::format("{:.3f}", std::exp(against.log_ratio.high)),
                    std::to_string(against.pairs), Word(against.sign)});
  }
  WriteAligned(out, rows, 1);
  const std::string hint = Hint(verdict);
  if (!hint.empty()) out << hint << '\n';
}

}  // namespace

Json VerdictJson(const VerdictHeader& header, const run::Verdict& verdict) {
  const bool is_valid = !verdict.failure && !verdict.interrupted;
  Json json{{"schema", "twinserve.verdict/1"},
            {"policy",
             {{"name", header.policy},
              {"file", header.file},
              {"hash", header.file_hash},
              {"language", header.language}}},
            {"judge",
             {{"version", run::kVersion},
              {"commit", run::kCommit},
              {"set", header.set},
              {"set_hash", header.set_hash},
              {"seed", header.secret.is_number() ? Json(header.secret.number())
                                                 : Json(header.secret.text())},
              {"submission", header.submission},
              {"sandbox", verdict.sandbox},
              {"hostile_worlds", verdict.hostile_worlds}}},
            {"valid", is_valid},
            {"gate", verdict.failure ? Json(verdict.failure->gate) : Json()},
            {"reason", verdict.failure       ? verdict.failure->reason
                       : verdict.interrupted ? "interrupted"
                                             : ""}};
  const bool is_scored = is_valid && !verdict.against.empty();
  const run::Interval score = is_scored ? verdict.against.front().log_ratio : run::Interval{};
  json["score"] = is_scored ? Number(score.value) : Json();
  json["interval"] = is_scored ? Json::array({Number(score.low), Number(score.high)}) : Json();
  json["confidence"] = header.confidence;
  json["against"] = Json::array();
  if (is_valid) {
    for (const run::AgainstReference& against : verdict.against) {
      json["against"].push_back(AgainstJson(against));
    }
    json["cells"] = Json::array();
    for (const run::CellScore& cell : verdict.cells) {
      json["cells"].push_back({{"workload", cell.cell->workload},
                               {"system", cell.cell->system},
                               {"load", cell.cell->load},
                               {"log_ratio", Number(cell.log_ratio)},
                               {"pairs", cell.pairs},
                               {"saturated", cell.saturated}});
    }
    json["trades"] = Json::array();
    for (const run::Trade& trade : verdict.trades) {
      json["trades"].push_back({{"class", trade.requests}, {"log_ratio", trade.log_ratio}});
    }
    json["bounds"] = Json::array();
    for (const run::CellScore& cell : verdict.cells) {
      if (!cell.floor_s) continue;
      json["bounds"].push_back({{"workload", cell.cell->workload},
                                {"system", cell.cell->system},
                                {"load", cell.cell->load},
                                {"metric", "mean_e2el_ms"},
                                {"value", Number(1e3 * cell.mean_e2e_s)},
                                {"bound", Number(1e3 * *cell.floor_s)},
                                {"ratio", Number(cell.mean_e2e_s / *cell.floor_s)}});
    }
    json["charged_score"] = verdict.charged_score ? Number(*verdict.charged_score) : Json();
    json["planning_us"] = {{"p50", verdict.planning_p50_us}, {"p99", verdict.planning_p99_us}};
    json["extrapolated_share"] = verdict.outside_share;
    json["hint"] = Hint(verdict);
  }
  json["cpu_s"] = header.cpu_s;
  return json;
}

void PrintVerdict(std::ostream& out, const VerdictHeader& header, const run::Verdict& verdict) {
  PrintJudged(out, header, verdict);
  out << fmt::format("repeat with --seed {} --submission {}\n", header.secret.text(),
                     header.submission);
}

}  // namespace twin::apps
