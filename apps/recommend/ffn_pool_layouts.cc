#include "apps/recommend/ffn_pool_layouts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

#include "core/input_error.h"
#include "core/time.h"
#include "run/many/bounds.h"
#include "sched/step_plan.h"
#include "sim/cost/ffn_pool_cost.h"
#include "sim/cost/ffn_pool_optimum.h"

namespace twin::run {
namespace {

using Objective = RecommendConfig::Objective;

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// A step that decodes `requests` of equal contexts.
StepTotals DecodesOf(std::int64_t requests, double context) {
  const auto held = std::max<std::int64_t>(1, std::llround(context));
  return {.decode_items = requests,
          .decode_context_tokens = requests * held,
          .decode_context_max = held,
          .emitting_items = requests};
}

double StepSeconds(const Deployment& deployment, const StepTotals& totals) {
  StepPlan plan;
  plan.totals = totals;
  Duration time{0};
  deployment.cost->DeviceTimes(plan, {&time, 1});
  return Seconds(time);
}

// The smallest bound on a time per output token, in seconds; infinity without one.
double TokenSecondsMax(const RecommendConfig& request, const Deployment& deployment) {
  double least = std::numeric_limits<double>::infinity();
  if (deployment.config.slo.tpot) least = Seconds(*deployment.config.slo.tpot);
  if (request.until.empty()) return least;
  for (const MetricBound& bound : ParseBounds(request.until)) {
    const bool is_tpot = std::string_view(bound.metric).ends_with("tpot_ms");
    if (is_tpot && bound.kind == MetricBound::Kind::kAtMost)
      least = std::min(least, bound.limit * 1e-3);
  }
  return least;
}

// Seconds of a layer of a micro-batch, mean over the layers.
struct MeanLayer {
  double attention = 0;
  double ffn = 0;
  double link = 0;
};

MeanLayer MeanLayerOf(const sim::FfnPoolStep& step) {
  MeanLayer mean;
  const auto layers = static_cast<double>(step.layers.size());
  for (const sim::FfnPoolLayer& layer : step.layers) {
    mean.attention += Seconds(layer.attention) / layers;
    mean.ffn += Seconds(layer.ffn) / layers;
    mean.link += Seconds(std::max(layer.send, layer.back)) / layers;
  }
  return mean;
}

class LayoutSearch {
 public:
  LayoutSearch(const RecommendConfig& request, const OfferedHardwareConfig& hardware,
               const FfnPoolChoices& choices, const LongestRequest& lengths,
               const LayoutMaker& make)
      : request_(request),
        hardware_(hardware),
        choices_(choices),
        context_(lengths.mean_prompt_tokens + lengths.mean_output_tokens / 2),
        output_tokens_(lengths.mean_output_tokens),
        requests_per_s_(lengths.requests_per_s),
        make_(make) {}

  std::vector<Layout> Find();

 private:
  struct Ranked {
    Layout layout;
    double value = kImpossible;
  };

  void AddAllOf(const Layout& base);
  // The number of groups with the most throughput per price, for pools and micro-batches of `base`.
  void Climb(const Layout& base, std::int32_t most);
  // As that, with the most throughput of all replicas that fit.
  void Fill(const Layout& base, std::int32_t most);
  [[nodiscard]] bool counts_all() const {
    return request_.objective == Objective::kGoodput || request_.objective == Objective::kUsers;
  }
  [[nodiscard]] Layout WithGroups(const Layout& base, std::int32_t groups) const;
  [[nodiscard]] std::int32_t GroupsThatFit(const Layout& base) const;
  // The optimum of the closed form, from two steps of one attention group.
  [[nodiscard]] double StartOf(const Layout& base) const;
  // How good the times of steps say that a layout is; kImpossible if it cannot run.
  [[nodiscard]] double ValueOf(const Layout& layout) const;
  [[nodiscard]] double ValueOf(const Candidate& candidate) const;
  // Requests that the caches hold and a step takes.
  [[nodiscard]] std::int64_t MostRequests(const Deployment& deployment) const;
  // Requests in a step at the load of the request.
  [[nodiscard]] std::int64_t RequestsAtLoad(const Candidate& candidate, std::int64_t most) const;
  [[nodiscard]] std::vector<Layout> Kept() const;
  void AddReplicas(const std::vector<Layout>& found, std::vector<Layout>& layouts) const;

  const RecommendConfig& request_;
  const OfferedHardwareConfig& hardware_;
  const FfnPoolChoices& choices_;
  double context_;  // tokens that a request holds, mean
  double output_tokens_;
  double requests_per_s_;
  const LayoutMaker& make_;
  std::vector<Ranked> ranked_;
};

Layout LayoutSearch::WithGroups(const Layout& base, std::int32_t groups) const {
  Layout layout = base;
  layout.ffn->attention_groups = groups;
  layout.replicas = 1;
  layout.replicas = ReplicasThatFit(hardware_, layout);
  return layout;
}

std::int32_t LayoutSearch::GroupsThatFit(const Layout& base) const {
  const std::int32_t pool = hardware_.ffn->name.empty() ? base.ffn->devices : 0;
  return (hardware_.devices - pool) / base.parallelism.tensor;
}

std::int64_t LayoutSearch::MostRequests(const Deployment& deployment) const {
  const double held = static_cast<double>(deployment.capacity.tokens()) / context_;
  const std::int64_t most = std::llround(std::floor(held));
  const std::int64_t limit = deployment.traits.sequences_per_step_max;
  return limit > 0 ? std::min(most, limit) : most;
}

std::int64_t LayoutSearch::RequestsAtLoad(const Candidate& candidate, std::int64_t most) const {
  const Deployment& deployment = candidate.deployment;
  const ArrivalConfig& arrivals = deployment.config.workload.arrivals;
  const double replicas = candidate.choice.layout.replicas;
  const auto rounded = [most](double requests) {
    return std::llround(std::clamp(std::ceil(requests), 1.0, static_cast<double>(most)));
  };
  if (arrivals.kind == ArrivalConfig::Kind::kClosedLoop) return rounded(arrivals.users / replicas);
  // As many as arrive while one is answered.
  std::int64_t requests = 1;
  for (;;) {
    const double step_s = StepSeconds(deployment, DecodesOf(requests, context_));
    const std::int64_t more = rounded(requests_per_s_ / replicas * output_tokens_ * step_s);
    if (more <= requests) return requests;
    requests = more;
  }
}

double LayoutSearch::ValueOf(const Candidate& candidate) const {
  const Deployment& deployment = candidate.deployment;
  const std::int64_t most = MostRequests(deployment);
  if (most < 1) return kImpossible;
  const auto seconds = [&](std::int64_t requests) {
    return StepSeconds(deployment, DecodesOf(requests, context_));
  };
  if (request_.objective == Objective::kLatency) return -seconds(RequestsAtLoad(candidate, most));
  const double limit = TokenSecondsMax(request_, deployment);
  std::int64_t fits = 1;
  std::int64_t above = most + 1;
  if (seconds(fits) > limit) return -seconds(fits);
  while (above - fits > 1) {
    const std::int64_t middle = fits + (above - fits) / 2;
    (seconds(middle) <= limit ? fits : above) = middle;
  }
  const double rate = static_cast<double>(fits) / seconds(fits);
  const double all = rate * candidate.choice.layout.replicas;
  return counts_all() ? all : all / FleetValue(candidate);
}

double LayoutSearch::ValueOf(const Layout& layout) const {
  if (layout.replicas < 1) return kImpossible;
  try {
    return ValueOf(make_(layout));
  } catch (const InputError&) {
    return kImpossible;
  }
}

double LayoutSearch::StartOf(const Layout& base) const {
  const Layout one = WithGroups(base, 1);
  if (one.replicas < 1) return 1;
  const Deployment deployment = make_(one).deployment;
  const auto* const cost = dynamic_cast<const sim::FfnPoolCost*>(deployment.cost.get());
  const std::int64_t most = MostRequests(deployment);
  if (cost == nullptr || most < 2) return 1;
  const MeanLayer full = MeanLayerOf(cost->StepOf(DecodesOf(most, context_)));
  const MeanLayer half = MeanLayerOf(cost->StepOf(DecodesOf(most / 2, context_)));
  const double tokens = static_cast<double>(most) / base.ffn->micro_batches;
  const double added = static_cast<double>(most - most / 2) / base.ffn->micro_batches;
  const double attention_token_s = (full.attention - half.attention) / added;
  const double ffn_token_s = std::max((full.ffn - half.ffn) / added, 1e-15);
  const OfferedFfnPoolConfig& pool = *hardware_.ffn;
  const double price = hardware_.price_per_hour > 0 ? hardware_.price_per_hour : 1;
  const double pool_price = pool.price_per_hour > 0 ? pool.price_per_hour : price;
  const double devices = base.ffn->devices;
  return sim::BestAttentionDevices({.attention_token_s = attention_token_s,
                                    .attention_s = full.attention - attention_token_s * tokens,
                                    .ffn_row_s = ffn_token_s * devices,
                                    .ffn_s = std::max(full.ffn - ffn_token_s * tokens, 0.0),
                                    .link_s = full.link,
                                    .tokens = tokens,
                                    .experts = devices,
                                    .experts_per_token = 1,
                                    .attention_cost = base.parallelism.tensor * price,
                                    .ffn_cost = pool_price});
}

// To the number of groups whose neighbours are not better, in steps that shrink to one.
void LayoutSearch::Climb(const Layout& base, std::int32_t most) {
  std::map<std::int32_t, double> values;
  const auto value = [&](std::int32_t groups) {
    if (groups < 1 || groups > most) return kImpossible;
    const auto known = values.find(groups);
    if (known != values.end()) return known->second;
    return values.emplace(groups, ValueOf(WithGroups(base, groups))).first->second;
  };
  double start = 1;
  try {
    start = StartOf(base);
  } catch (const InputError&) {  // another number of groups may run
  }
  auto best = static_cast<std::int32_t>(std::clamp(std::round(start), 1.0, double(most)));
  for (std::int32_t step = std::max(1, most / 4);; step = std::max(1, step / 2)) {
    const std::int32_t before = best;
    for (const std::int32_t groups : {before - step, before + step}) {
      if (value(groups) > value(best)) best = groups;
    }
    if (best != before) {
      step *= 2;
    } else if (step == 1) {
      break;
    }
  }
  ranked_.push_back({WithGroups(base, best), value(best)});
}

// More groups never slow a replica's throughput, so that only the most for each number of replicas
// matters.
void LayoutSearch::Fill(const Layout& base, std::int32_t most) {
  Ranked best;
  std::int32_t replicas = 0;
  for (std::int32_t groups = most; groups >= 1; --groups) {
    const Layout layout = WithGroups(base, groups);
    if (layout.replicas == replicas) continue;
    replicas = layout.replicas;
    const double value = ValueOf(layout);
    if (!best.layout.ffn || value > best.value) best = {layout, value};
  }
  if (best.layout.ffn) ranked_.push_back(best);  // else no number of groups has a replica
}

void LayoutSearch::AddAllOf(const Layout& base) {
  const std::int32_t most = GroupsThatFit(base);
  if (most < 1) return;
  if (choices_.attention_groups.empty()) return counts_all() ? Fill(base, most) : Climb(base, most);
  for (const std::int32_t groups : choices_.attention_groups) {
    if (groups > most) continue;
    const Layout layout = WithGroups(base, groups);
    ranked_.push_back({layout, ValueOf(layout)});
  }
}

// The first few, and the first one of each listed value.
std::vector<Layout> LayoutSearch::Kept() const {
  const OpenSettingsConfig& open = request_.settings;
  std::vector<Layout> kept;
  for (const Ranked& one : ranked_) {
    const auto is_new = [&](const auto& listed, auto value_of) {
      return !listed.empty() && std::ranges::none_of(kept, [&](const Layout& other) {
        return value_of(other) == value_of(one.layout);
      });
    };
    const bool is_first_of_value =
        is_new(open.tensor_parallel, [](const Layout& l) { return l.parallelism.tensor; }) ||
        is_new(open.attention_groups, [](const Layout& l) { return l.ffn->attention_groups; }) ||
        is_new(open.ffn_devices, [](const Layout& l) { return l.ffn->devices; }) ||
        is_new(open.micro_batches, [](const Layout& l) { return l.ffn->micro_batches; });
    const bool is_good = one.value != kImpossible && kept.size() < kFfnPoolLayoutsKept;
    if (kept.empty() || is_good || is_first_of_value) kept.push_back(one.layout);
  }
  return kept;
}

void LayoutSearch::AddReplicas(const std::vector<Layout>& found,
                               std::vector<Layout>& layouts) const {
  for (const Layout& layout : found) {
    if (layout.replicas < 1) continue;
    if (choices_.replicas.empty()) layouts.push_back(layout);
    for (const std::int32_t replicas : choices_.replicas) {
      if (replicas > layout.replicas) continue;
      layouts.push_back(layout);
      layouts.back().replicas = replicas;
    }
  }
}

std::vector<Layout> LayoutSearch::Find() {
  for (const std::int32_t tensor : choices_.tensor_parallel) {
    for (const std::int32_t devices : choices_.ffn_devices) {
      for (const std::int32_t parts : choices_.micro_batches) {
        AddAllOf({.parallelism = {.tensor = tensor},
                  .ffn = FfnPoolSplit{.devices = devices, .micro_batches = parts}});
      }
    }
  }
  std::ranges::stable_sort(ranked_, std::greater<>(), &Ranked::value);
  std::vector<Layout> found = Kept();
  if (!found.empty() && choices_.attention_groups.empty()) {
    const std::int32_t groups = found.front().ffn->attention_groups;
    for (const std::int32_t other : {groups - 1, groups + 1}) {
      if (other < 1 || other > GroupsThatFit(found.front())) continue;
      const Layout layout = WithGroups(found.front(), other);
      if (std::ranges::find(found, layout) == found.end()) found.push_back(layout);
    }
  }
  std::vector<Layout> layouts;
  AddReplicas(found, layouts);
  return layouts;
}

}  // namespace

std::int32_t ReplicasThatFit(const OfferedHardwareConfig& hardware, const Layout& layout) {
  Layout one = layout;
  one.replicas = 1;
  if (hardware.ffn->name.empty()) return hardware.devices / one.devices();
  return std::min(hardware.devices / one.own_devices(), hardware.ffn->devices / one.pool_devices());
}

std::vector<Layout> FfnPoolLayouts(const RecommendConfig& request,
                                   const OfferedHardwareConfig& hardware,
                                   const FfnPoolChoices& choices, const LongestRequest& lengths,
                                   const LayoutMaker& make) {
  return LayoutSearch(request, hardware, choices, lengths, make).Find();
}

}  // namespace twin::run
