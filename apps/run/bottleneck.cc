#include "apps/run/bottleneck.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <variant>

#include "config/servers/servers.h"
#include "core/number_text.h"

namespace twin::apps {
namespace {

constexpr double kLostShare = 0.01;
constexpr double kFullCache = 0.98;
constexpr double kFullSteps = 0.9;  // share of a limit of steps
constexpr double kLongGap = 4;      // p99 of the gaps between tokens over their median

// Reads the summary; a value that is not there is NaN, which fails every comparison.
class BottleneckSearch {
 public:
  BottleneckSearch(const ExperimentConfig& config, const Summary& summary, std::string file)
      : config_(config),
        summary_(summary),
        file_(std::move(file)),
        traits_(TraitsOf(config)),
        replicas_(config.system.replicas) {
    if (config.system.server) server_ = FindServer(*config.system.server);
  }

  [[nodiscard]] Advice Find() const {
    for (const auto test :
         {&BottleneckSearch::Load, &BottleneckSearch::Losses, &BottleneckSearch::Cache,
          &BottleneckSearch::Sequences, &BottleneckSearch::Prompts, &BottleneckSearch::Gaps}) {
      if (const std::optional<Advice> advice = (this->*test)()) return *advice;
    }
    return None();
  }

 private:
  [[nodiscard]] double Number(std::string_view name) const {
    const SummaryValue* const value = summary_.Find(name);
    const bool is_number = value != nullptr && !std::holds_alternative<std::string>(*value);
    return is_number ? summary_.Number(name) : std::numeric_limits<double>::quiet_NaN();
  }
  // The flag of the server, or what it sets where the server has no such flag.
  [[nodiscard]] std::string Flag(Setting setting, const char* otherwise) const {
    if (!server_) return otherwise;
    const ServerSetting* const found = FindSetting(server_->server->family, setting);
    const bool is_set = found != nullptr && !FieldOf(*found, server_->preset->policy).empty();
    return is_set ? found->flag : otherwise;
  }

  [[nodiscard]] std::optional<Advice> Load() const {
    const SummaryValue* const saturated = summary_.Find("saturated");
    if (saturated == nullptr || *saturated != SummaryValue(std::string("yes"))) return std::nullopt;
    const double come = Number("offered_rate");
    const double leave = Number("completed_rate");
    if (!(leave > 0)) return std::nullopt;
    const double replicas = std::ceil(come / leave * replicas_);
    return Advice{
        fmt::format("load. {}/s come, {}/s leave", RoundedText(come, 3), RoundedText(leave, 3)),
        fmt::format("--rate below {}, or --replicas {:.0f}", RoundedText(leave, 3),
                    std::max(replicas, replicas_ + 1.0))};
  }

  [[nodiscard]] std::optional<Advice> Losses() const {
    const double rejected = Number("rejected");
    const double share = (rejected + Number("cancelled")) / Number("requests");
    if (!(share > kLostShare)) return std::nullopt;
    const double too_long =
        Number("rejected_too_long_for_model") + Number("rejected_too_large_for_cache");
    return Advice{fmt::format("requests without an answer, {:.3g} % of them: latencies are of "
                              "those that were served",
                              100 * share),
                  too_long > rejected / 2
                      ? fmt::format("shorter requests, or a larger {}",
                                    Flag(Setting::kMaxModelLen, "limit of their length"))
                      : "more time for an answer, or less load"};
  }

  [[nodiscard]] std::optional<Advice> Cache() const {
    const double most = Number("max_kv_used_share");
    const double preemptions = Number("preemptions");
    if (!(most >= kFullCache) && !(preemptions > 0)) return std::nullopt;
    const std::int32_t ranks = 2 * config_.system.parallelism.tensor;
    const bool divides = config_.system.model_spec.query_heads % ranks == 0;
    return Advice{fmt::format("KV cache. It is {:.3g} % full at most, with {:.0f} preemptions",
                              100 * most, preemptions),
                  fmt::format("a larger {}, {} fp8, {}a shorter {}",
                              Flag(Setting::kMemoryShare, "share of memory"),
                              Flag(Setting::kKvFormat, "a cache in"),
                              divides ? fmt::format("--tp {}, or ", ranks) : "or ",
                              Flag(Setting::kMaxModelLen, "limit of requests"))};
  }

  [[nodiscard]] std::optional<Advice> Sequences() const {
    const double limit = double{1} * traits_.sequences_per_step_max * replicas_;
    const double running = Number("mean_running");
    if (limit == 0 || !(running >= kFullSteps * limit)) return std::nullopt;
    return Advice{fmt::format("sequences. {} run on average, of {:.0f} at most",
                              RoundedText(running, 3), limit),
                  fmt::format("{} {}", Flag(Setting::kMaxNumSeqs, "a limit of sequences of"),
                              2 * traits_.sequences_per_step_max)};
  }

  [[nodiscard]] std::optional<Advice> Prompts() const {
    const double tokens = Number("mean_batch_tokens");
    const double waiting = Number("mean_waiting");
    const std::int32_t budget = traits_.tokens_per_step_max;
    if (budget == 0 || !(tokens >= kFullSteps * budget) || !(waiting > 1)) return std::nullopt;
    return Advice{
        fmt::format("prompts. Steps hold {:.0f} of {} tokens on average, and {} requests "
                    "wait",
                    tokens, budget, RoundedText(waiting, 3)),
        fmt::format("{} {}, --replicas {}, or separate prefill (system.disaggregation)",
                    Flag(Setting::kTokenBudget, "a token budget of"), 2 * budget, replicas_ + 1)};
  }

  [[nodiscard]] std::optional<Advice> Gaps() const {
    const double ratio = Number("p99_itl_ms") / Number("p50_itl_ms");
    if (!(ratio > kLongGap)) return std::nullopt;
    return Advice{fmt::format("prompts between decodes. The p99 of ITL is {} times its median",
                              RoundedText(ratio, 3)),
                  fmt::format("{} {}", Flag(Setting::kTokenBudget, "a token budget of"),
                              std::max(traits_.tokens_per_step_max / 4, 1))};
  }

  [[nodiscard]] Advice None() const {
    const double times = std::floor(1 / Number("mean_kv_used_share"));
    std::string held;
    if (times > 1) held = fmt::format("; memory holds about {:.0f} times as many", times);
    return {fmt::format("none at this load. Decodes read the weights for {} requests a step{}",
                        RoundedText(Number("mean_batch_sequences"), 2), held),
            More()};
  }

  // How to find the largest load.
  [[nodiscard]] std::string More() const {
    const ArrivalConfig& arrivals = config_.workload.arrivals;
    const auto vary = [&](const char* field, double low, double high) {
      return fmt::format(
          "more load fits; twinserve capacity {} --vary {} --between {},{} --until "
          "'p99_ttft_ms<=1000' finds how much",
          file_, field, RoundedText(low, 3), RoundedText(high, 3));
    };
    using Kind = ArrivalConfig::Kind;
    if (arrivals.kind == Kind::kClosedLoop) {
      return vary("workload.arrivals.users", arrivals.users, 20.0 * arrivals.users);
    }
    if (arrivals.kind == Kind::kAllAtOnce) return "--rate R, a load that comes over time";
    if (arrivals.rate > 0) {
      return vary("workload.arrivals.rate", arrivals.rate / 10, 6 * arrivals.rate);
    }
    if (!config_.workload.trace) return "more load fits";
    const double scale = config_.workload.trace->rate_scale;
    return vary("workload.trace.rate_scale", scale / 10, 6 * scale);
  }

  const ExperimentConfig& config_;
  const Summary& summary_;
  std::string file_;
  PolicyTraits traits_;
  std::int32_t replicas_;
  std::optional<ListedServer> server_;
};

}  // namespace

Advice AdviceOn(const ExperimentConfig& config, const Summary& summary,
                const std::string& experiment_file) {
  return BottleneckSearch(config, summary, experiment_file).Find();
}

}  // namespace twin::apps
