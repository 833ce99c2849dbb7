#include "run/bounds/work_floor.h"

#include <algorithm>
#include <limits>

#include "core/check.h"

namespace twin::run {
namespace {

constexpr double kGridRatio = 1.02;
constexpr int kRates = 20;

// Durations are rounded to nanoseconds.
constexpr double kRounding = 1e-9;

// A range of whole numbers, ends included.
struct Cell {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

// Cells that cover 1 to `most`, each at most kGridRatio wide.
std::vector<Cell> CellsUpTo(std::int64_t most) {
  std::vector<Cell> cells;
  for (std::int64_t low = 1; low <= most;) {
    const auto wide = static_cast<std::int64_t>(static_cast<double>(low) * kGridRatio);
    const std::int64_t high = std::min(most, std::max(low, wide));
    cells.push_back({low, high});
    low = high + 1;
  }
  return cells;
}

StepTotals PrefillOf(std::int64_t tokens, std::int64_t context, std::int64_t pairs) {
  StepTotals totals;
  totals.prefill_tokens = tokens;
  totals.prefill_items = 1;
  totals.prefill_context_tokens = context;
  totals.prefill_context_max = 1;
  totals.prefill_attention_pairs = pairs;
  return totals;
}

StepTotals DecodeOf(std::int64_t context) {
  StepTotals totals;
  totals.decode_items = 1;
  totals.decode_context_tokens = context;
  totals.decode_context_max = 1;
  totals.emitting_items = 1;
  return totals;
}

}  // namespace

WorkFloor::WorkFloor(const sim::StepCost& cost, std::int64_t cache_tokens) : cost_(cost) {
  CHECK(cost.stages() == 1 && cache_tokens >= 1);
  StepPlan least;
  least.work.push_back({.tokens = 1});
  least.totals = PrefillOf(1, 1, 1);
  host_s_ = twin::Seconds(cost.HostTime(least));
  FindRates(cache_tokens);
}

double WorkFloor::Seconds(const StepTotals& totals) const {
  StepPlan plan;
  plan.totals = totals;
  Duration time{0};
  cost_.DeviceTimes(plan, {&time, 1});
  return std::max(0.0, twin::Seconds(time) - kRounding);
}

// The cost of the cheapest of five forms, which stand for every step with these numbers of tokens
// and contexts: the contexts belong to decodes or to prefills, and the remaining tokens are
// padding, prefilled, or decodes.
double WorkFloor::LeastStep(std::int64_t tokens, std::int64_t contexts) const {
  const std::int64_t context = std::max<std::int64_t>(contexts, 1);
  StepTotals forms[] = {DecodeOf(context), PrefillOf(1, context, context), DecodeOf(context),
                        PrefillOf(tokens, context, context), PrefillOf(1, context, context)};
  forms[0].padding_tokens = tokens - 1;
  forms[1].padding_tokens = tokens - 1;
  forms[2].prefill_tokens = tokens - 1;
  forms[4].decode_items = tokens - 1;
  double least = std::numeric_limits<double>::infinity();
  for (StepTotals& form : forms) {
    if (contexts == 0) form.emitting_items = 0;
    least = std::min(least, Seconds(form));
  }
  return least;
}

// A cell's cheapest step is at its lower end, and the charge is largest at its upper end.
void WorkFloor::FindRates(std::int64_t cache_tokens) {
  const std::vector<Cell> tokens = CellsUpTo(cache_tokens);
  std::vector<Cell> contexts = CellsUpTo(cache_tokens);
  contexts.insert(contexts.begin(), Cell{});
  std::vector<double> least;
  double token_s = std::numeric_limits<double>::infinity();
  for (const Cell& n : tokens) {
    for (const Cell& c : contexts) {
      least.push_back(LeastStep(n.low, c.low));
      token_s = std::min(token_s, least.back() / static_cast<double>(n.high));
    }
  }
  for (int share = kRates; share >= 0; --share) {
    WorkRate rate{.token_s = token_s * share / kRates,
                  .context_s = std::numeric_limits<double>::infinity()};
    auto at = least.begin();
    for (const Cell& n : tokens) {
      const double charged = rate.token_s * static_cast<double>(n.high);
      for (const Cell& c : contexts) {
        const double left = std::max(0.0, *at++ - charged);
        if (c.high > 0) {
          rate.context_s = std::min(rate.context_s, left / static_cast<double>(c.high));
        }
      }
    }
    rates_.push_back(rate);
  }
}

double WorkFloor::UntilFirstToken(const RequestWork& request) const {
  const std::int64_t own = request.own_prompt();
  StepTotals totals =
      PrefillOf(own, request.prompt_tokens, own * request.shared_tokens + own * (own + 1) / 2);
  totals.emitting_items = 1;
  return host_s_ + Seconds(totals);
}

double WorkFloor::BehindFirstToken(const RequestWork& request) {
  const auto first = static_cast<std::size_t>(request.prompt_tokens);
  const std::size_t last = first + static_cast<std::size_t>(request.output_tokens) - 1;
  while (decodes_.size() <= last) {
    const auto context = static_cast<std::int64_t>(decodes_.size());
    StepTotals again = PrefillOf(1, context, context);  // after a preemption, with cached blocks
    again.emitting_items = 1;
    decodes_.push_back(decodes_.back() + std::min(Seconds(DecodeOf(context)), Seconds(again)));
  }
  return decodes_[last] - decodes_[first];
}

}  // namespace twin::run
