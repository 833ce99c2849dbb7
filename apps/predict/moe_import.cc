#include "apps/predict/moe_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/predict/operation_predictor.h"
#include "apps/predict/simplex_search.h"
#include "config/profile_folder.h"
#include "core/files/csv.h"
#include "core/input_error.h"
#include "core/statistics.h"
#include "run/run_control.h"
#include "sim/devices/operations/moe_model.h"
#include "sim/devices/operations/moe_table.h"

namespace twin::run {
namespace {

constexpr std::size_t kMoeFitRows = 1200;
constexpr int kMoeEvaluations = 900;
constexpr double kMoeErrorMax = 0.6;
constexpr double kMoeErrorsAtP90 = 1.645;
constexpr double kMoeUsMax = 1e9;

struct MoeRow {
  sim::MoeShape model;  // a whole layer
  std::int32_t ranks = 1;
  bool even = false;    // tokens are spread evenly over the experts
  sim::MoeShape shape;  // of one rank
  std::int64_t tokens = 0;
  double seconds = 0;
};

struct MoeCoefficient {
  double sim::MoeCoefficients::*member;
  double low;
  double high;
};

using M = sim::MoeCoefficients;
constexpr MoeCoefficient kMoeCoefficients[] = {
    {&M::latency_s, 1e-6, 300e-6}, {&M::expert_s, 0, 2e-6},      {&M::bandwidth_fraction, 0.3, 1},
    {&M::flops_fraction, 0.15, 1}, {&M::spread, 0.3, 1.5},       {&M::padding_rows, 0, 128},
    {&M::overlap, 1, 8},           {&M::activation_passes, 0, 6}};

std::vector<MoeRow> ReadMoeRows(const std::string& path, const RunControl& control) {
  CsvTable table(path, {"moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk",
                        "num_experts", "moe_tp_size", "moe_ep_size", "latency_us"});
  const auto size = [&](const char* column) {
    return static_cast<std::int32_t>(table.Integer(column, 1, kGemmSizeMax));
  };
  std::vector<MoeRow> rows;
  while (table.Next()) {
    EndIfStopped(control);
    if (table.Integer("moe_ep_size", 1, kGemmSizeMax) != 1) continue;
    MoeRow row;
    row.model = {.hidden = size("hidden_size"),
                 .intermediate = size("inter_size"),
                 .experts = size("num_experts"),
                 .experts_per_token = size("topk"),
                 .format = GemmFormatOf(table, "moe_dtype")};
    row.ranks = size("moe_tp_size");
    row.even = table.Has("distribution") && table.Text("distribution") == "balanced";
    row.shape = row.model;
    row.shape.intermediate = std::max(1, row.model.intermediate / row.ranks);
    row.tokens = table.Integer("num_tokens", 1, kGemmSizeMax);
    row.seconds = 1e-6 * table.Positive("latency_us", kMoeUsMax);
    rows.push_back(row);
  }
  return rows;
}

std::vector<double> Errors(const HardwareSpec& hardware, const M& coefficients,
                           const std::vector<MoeRow>& rows) {
  std::vector<double> errors;
  for (const MoeRow& row : rows) {
    errors.push_back(
        std::log(sim::MoeClosedForm(hardware, coefficients, row.shape, row.tokens) / row.seconds));
  }
  return errors;
}

M FitMoe(const HardwareSpec& hardware, const std::vector<MoeRow>& rows, const RunControl& control) {
  std::vector<MoeRow> sample;
  const std::size_t count = std::min(kMoeFitRows, rows.size());
  for (std::size_t i = 0; i < count; ++i) sample.push_back(rows[i * rows.size() / count]);
  std::vector<SearchRange> ranges;
  for (const MoeCoefficient& c : kMoeCoefficients) {
    ranges.push_back({c.low, M{}.*c.member, c.high});
  }
  const auto coefficients_of = [](const std::vector<double>& values) {
    M coefficients;
    std::size_t i = 0;
    for (const MoeCoefficient& c : kMoeCoefficients) coefficients.*c.member = values[i++];
    return coefficients;
  };
  std::vector<double> best =
      SearchMinimum(ranges, kMoeEvaluations, [&](const std::vector<double>& values) {
        EndIfStopped(control);
        double sum = 0;
        for (const double error : Errors(hardware, coefficients_of(values), sample)) {
          sum += std::min(std::abs(error), kMoeErrorMax);
        }
        return sum / static_cast<double>(sample.size());
      });
  // To 4 digits, as files hold it.
  for (double& value : best) value = std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr);
  return coefficients_of(best);
}

// A quantile of the absolute values.
double Size(std::vector<double> errors, double share) {
  for (double& error : errors) error = std::abs(error);
  return Quantile(std::move(errors), share);
}

constexpr std::size_t kMoeModelsMin = 4;

// A table, and ln(predicted / measured) of what it holds, of more ranks than it holds, and of each
// model without its row.
struct MoeTableFit {
  sim::MoeTable table;
  std::vector<double> measured;
  std::vector<double> other_ranks;
  std::vector<double> left_out;
};

double ErrorOf(const HardwareSpec& hardware, const sim::MoeProfile& profile, const MoeRow& row) {
  const sim::MoeModel model(hardware, row.shape, profile);
  return std::log(model.At(row.tokens, sim::MoeRouting::kRandom).seconds / row.seconds);
}

// Means by tokens; linear between measured numbers of tokens.
std::vector<double> CurveOver(const std::vector<std::uint32_t>& tokens,
                              const std::map<std::int64_t, std::vector<double>>& log_ratios) {
  std::vector<double> curve;
  for (const std::uint32_t at : tokens) {
    const auto above = log_ratios.lower_bound(at);
    if (above == log_ratios.end() || above->first == at || above == log_ratios.begin()) {
      curve.push_back(Mean((above == log_ratios.end() ? std::prev(above) : above)->second));
      continue;
    }
    const auto below = std::prev(above);
    const auto log2 = [](std::int64_t value) { return std::log2(static_cast<double>(value)); };
    const double share =
        (log2(at) - log2(below->first)) / (log2(above->first) - log2(below->first));
    curve.push_back(std::lerp(Mean(below->second), Mean(above->second), share));
  }
  return curve;
}

// Numbers of tokens that are powers of 2; ranks that are powers of 2 up to 8. Even distributions
// where there are any: how many experts have tokens is known, and routers are trained for it.
sim::MoeTable MoeTableOf(const HardwareSpec& hardware, const sim::MoeFit& fit,
                         const std::vector<MoeRow>& rows) {
  sim::MoeTable table;
  table.format = fit.format;
  std::set<std::uint32_t> tokens;
  using Curves = std::map<std::int32_t, std::map<std::int64_t, std::vector<double>>>;  // by ranks
  std::map<std::string, Curves> models;
  std::map<std::string, sim::MoeShape> shapes;
  const bool even = std::ranges::any_of(rows, &MoeRow::even);
  const sim::MoeRouting routing = even ? sim::MoeRouting::kEven : sim::MoeRouting::kRandom;
  for (const MoeRow& row : rows) {
    if (row.even != even) continue;
    const auto count = static_cast<std::uint64_t>(row.tokens);
    if (std::has_single_bit(count)) tokens.insert(static_cast<std::uint32_t>(count));
    const std::string name = PrintMoeRow(row.model, {});
    shapes[name] = row.model;
    models[name][row.ranks][row.tokens].push_back(
        std::log(row.seconds /
                 sim::MoeClosedForm(hardware, fit.coefficients, row.shape, row.tokens, routing)));
  }
  table.tokens.assign(tokens.begin(), tokens.end());
  for (const auto& [name, by_ranks] : models) {
    std::vector<std::vector<double>> curves;
    for (int i = 0; i < sim::kMoeRankCounts; ++i) {
      const auto found = by_ranks.find(1 << i);
      curves.push_back(found == by_ranks.end() ? std::vector<double>{}
                                               : CurveOver(table.tokens, found->second));
    }
    const bool any = std::ranges::any_of(curves, [](const auto& curve) { return !curve.empty(); });
    if (any) table.rows.push_back(PrintMoeRow(shapes[name], curves));
  }
  return table;
}

std::string SizesText(const std::vector<double>& errors) {
  return fmt::format("{:.0f} / {:.0f}", 100 * std::expm1(Size(errors, 0.5)),
                     100 * std::expm1(Size(errors, 0.9)));
}

double SdOf(const std::vector<double>& errors) {
  return std::round(1e4 * Size(errors, 0.9) / kMoeErrorsAtP90) / 1e4;
}

MoeTableFit TabulateMoe(const HardwareSpec& hardware, const sim::MoeFit& fit,
                        const std::vector<MoeRow>& rows, const RunControl& control) {
  MoeTableFit result{MoeTableOf(hardware, fit, rows), {}, {}, {}};
  if (result.table.rows.size() < kMoeModelsMin) return result;
  sim::MoeTable& table = result.table;
  for (const MoeRow& row : rows) {
    EndIfStopped(control);
    const bool measured = row.ranks <= 1 << (sim::kMoeRankCounts - 1);
    const double error = ErrorOf(hardware, {{fit}, {table}}, row);
    (measured ? result.measured : result.other_ranks).push_back(error);
  }
  table.measured_sd = SdOf(result.measured);
  std::vector<double> standard;
  for (std::size_t left_out = 0; left_out < table.rows.size(); ++left_out) {
    sim::MoeTable others = table;
    others.rows.erase(others.rows.begin() + static_cast<std::ptrdiff_t>(left_out));
    const std::vector<sim::MoeMeasurement> curves = ParseMoeRows(others);
    for (const MoeRow& row : rows) {
      if (!table.rows[left_out].starts_with(PrintMoeRow(row.model, {}) + ' ')) continue;
      EndIfStopped(control);
      result.left_out.push_back(ErrorOf(hardware, {{fit}, {others}}, row));
      standard.push_back(result.left_out.back() / std::sqrt(CurveOf(curves, row.shape).variance));
    }
  }
  table.shape_sd = SdOf(standard);
  return result;
}

}  // namespace

MoeImport ImportMoe(const HardwareSpec& hardware, const std::string& path,
                    const RunControl& control) {
  std::map<sim::GemmFormat, std::vector<MoeRow>> formats;
  for (const MoeRow& row : ReadMoeRows(path, control)) formats[row.shape.format].push_back(row);
  if (formats.empty()) {
    throw InputError(InputError::Kind::kData, path,
                     "no row with moe_ep_size 1; allowed: one or more");
  }
  MoeImport result;
  result.text = fmt::format(
      "# Mixtures of experts of {}, from NVIDIA aiconfigurator (Apache-2.0), {};\n# written by "
      "\"twinserve import aiconfigurator\". Relative errors in %, median / p90, by format:\n",
      hardware.name, std::filesystem::path(path).filename().string());
  for (const auto& [format, rows] : formats) {
    std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::size_t> models;
    std::vector<MoeRow> fitted;
    std::vector<MoeRow> held_out;
    for (const MoeRow& row : rows) {
      const auto model = models.try_emplace(
          {row.shape.hidden, row.shape.experts, row.shape.experts_per_token}, models.size());
      (model.first->second % 2 == 0 ? fitted : held_out).push_back(row);
    }
    sim::MoeFit fit;
    fit.format = format;
    fit.coefficients = FitMoe(hardware, rows, control);
    const std::vector<double> in_sample = Errors(hardware, fit.coefficients, rows);
    const std::vector<double> held =
        held_out.empty() ? in_sample
                         : Errors(hardware, FitMoe(hardware, fitted, control), held_out);
    fit.log_sd = SdOf(held);
    result.profile.fits.push_back(fit);
    result.text += fmt::format("# {} rows, closed form {}; shapes held out {}", rows.size(),
                               SizesText(in_sample), SizesText(held));
    const MoeTableFit tabulated = TabulateMoe(hardware, fit, rows, control);
    if (!tabulated.measured.empty()) {
      result.profile.tables.push_back(tabulated.table);
      result.text += fmt::format("; table {}, models left out {}", SizesText(tabulated.measured),
                                 SizesText(tabulated.left_out));
      if (!tabulated.other_ranks.empty()) {
        result.text += fmt::format(", more than 8 ranks {}", SizesText(tabulated.other_ranks));
      }
    }
    result.text += '\n';
  }
  sim::DeviceProfile profile;
  profile.moe = result.profile;
  result.text += WriteProfilePart(profile, ProfilePart::kMoe);
  return result;
}

}  // namespace twin::run
