#include "apps/predict/step_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/number_text.h"

namespace twin::run {
namespace {

constexpr std::int64_t kStepTokensMax = std::int64_t{1} << 40;
// A step began after a rest if it ends more than this many predicted times after the row before.
constexpr double kIdleFactor = 1.7;

std::int64_t Count(const CsvTable& table, std::string_view column) {
  return table.Integer(column, 0, kStepTokensMax);
}

std::optional<double> Number(const CsvTable& table, std::string_view column) {
  if (!table.Has(column)) return std::nullopt;
  const std::string_view text = table.Text(column);
  if (text.empty()) return std::nullopt;
  const std::optional<double> value = NumberFrom<double>(text);
  if (!value || !(*value >= 0 && *value < 1e18)) {
    table.Refuse(column, "a number, 0 or more");
  }
  return value;
}

}  // namespace

const std::vector<std::string_view>& StepTableColumns() {
  static const std::vector<std::string_view> columns = {"decode_reqs", "decode_context_tokens",
                                                        "prefill_reqs", "prefill_tokens"};
  return columns;
}

StepRow ReadStepRow(const CsvTable& table) {
  StepRow row;
  StepTotals& totals = row.totals;
  totals.decode_items = Count(table, "decode_reqs");
  totals.decode_context_tokens =
      std::max(Count(table, "decode_context_tokens"), totals.decode_items);
  totals.prefill_items = Count(table, "prefill_reqs");
  totals.prefill_tokens = std::max(Count(table, "prefill_tokens"), totals.prefill_items);
  // A recorder that counts a prompt in its last step writes steps with chunks and no prompt.
  const std::int64_t ended = totals.prefill_items;
  if (totals.prefill_tokens > 0) totals.prefill_items = std::max<std::int64_t>(ended, 1);
  if (totals.decode_items == 0) totals.decode_context_tokens = 0;
  totals.emitting_items = totals.decode_items + ended;
  const std::int64_t context = table.Has("prefill_context_tokens")
                                   ? Count(table, "prefill_context_tokens")
                                   : totals.prefill_tokens;
  totals.prefill_context_tokens = std::max(context, totals.prefill_tokens);
  if (totals.prefill_items > 0) {
    // Chunks of equal lengths: each token sees what lies before its chunk, and half of the chunk.
    const auto items = static_cast<double>(totals.prefill_items);
    const auto tokens = static_cast<double>(totals.prefill_tokens);
    const double before =
        static_cast<double>(totals.prefill_context_tokens - totals.prefill_tokens) / items;
    totals.prefill_attention_pairs =
        static_cast<std::int64_t>(tokens * (before + (tokens / items + 1) / 2));
  }
  row.duty = Number(table, "duty");
  if (row.duty && *row.duty > 1) table.Refuse("duty", "a number from 0 to 1");
  if (const auto end = Number(table, "t_us")) row.end_s = *end * 1e-6;
  static const std::vector<std::pair<std::string_view, bool>> kWords = {
      {"1", true}, {"0", false}, {"1.0", true}, {"0.0", false}, {"true", true}, {"false", false}};
  const bool clean = table.Word("clean", kWords, true);
  if (const auto measured = Number(table, "iter_us"); measured && clean && *measured > 0) {
    row.measured_s = *measured * 1e-6;
  }
  return row;
}

double StepTimeline::BeginSeconds(const StepRow& row, double predicted_s) const {
  const double end = row.end_s.value_or(0);
  if (!end_s_ || end - *end_s_ > kIdleFactor * predicted_s) return end - predicted_s;
  return std::min(*end_s_, end);
}

StepTimeline::Begin StepTimeline::BeginOf(const StepRow& row, const sim::HeatMemory& memory,
                                          double predicted_s) const {
  if (row.duty) return {*row.duty, 0};
  if (!row.end_s || !end_s_) return {};
  const double idle = BeginSeconds(row, predicted_s) - *end_s_;
  if (idle <= 0) return {heat_, last_step_};
  return {memory.After(heat_, 0, idle), 0};
}

void StepTimeline::Advance(const StepRow& row, const sim::HeatMemory& memory, double load,
                           double predicted_s) {
  if (!row.end_s) return;
  const Begin begin = BeginOf(row, memory, predicted_s);
  last_step_ = std::max(0.0, *row.end_s - BeginSeconds(row, predicted_s));
  heat_ = memory.After(begin.heat, load, last_step_);
  end_s_ = row.end_s;
}

}  // namespace twin::run
