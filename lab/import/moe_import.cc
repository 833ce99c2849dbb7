#include "lab/import/moe_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>
#include <vector>

#include "core/input_error.h"
#include "lab/import/simplex_search.h"
#include "lab/predict/gemm_predictor.h"
#include "lab/predict/operation_table.h"
#include "proto/profile_file.h"
#include "sim/cost/operations/moe_model.h"

namespace twin::lab {
namespace {

constexpr std::size_t kMoeFitRows = 1200;
constexpr int kMoeEvaluations = 900;
constexpr double kMoeErrorMax = 0.6;
constexpr double kMoeErrorsAtP90 = 1.645;
constexpr double kMoeUsMax = 1e9;

struct MoeRow {
  sim::MoeShape shape;
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

std::vector<MoeRow> ReadMoeRows(const std::string& path) {
  OperationTable table(path, {"moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk",
                              "num_experts", "moe_tp_size", "moe_ep_size", "latency_us"});
  const auto size = [&](const char* column) {
    return static_cast<std::int32_t>(table.Integer(column, 1, kGemmSizeMax));
  };
  std::vector<MoeRow> rows;
  while (table.Next()) {
    if (table.Integer("moe_ep_size", 1, kGemmSizeMax) != 1) continue;
    MoeRow row;
    row.shape = {.hidden = size("hidden_size"),
                 .intermediate = std::max(1, size("inter_size") / size("moe_tp_size")),
                 .experts = size("num_experts"),
                 .experts_per_token = size("topk"),
                 .format = GemmFormatOf(table, "moe_dtype")};
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

M FitMoe(const HardwareSpec& hardware, const std::vector<MoeRow>& rows) {
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

// The share-th smallest absolute value.
double Size(std::vector<double> errors, double share) {
  for (double& error : errors) error = std::abs(error);
  std::ranges::sort(errors);
  return errors[static_cast<std::size_t>(share * static_cast<double>(errors.size() - 1))];
}

std::string SizesText(const std::vector<double>& errors) {
  return fmt::format("{:.0f} / {:.0f}", 100 * std::expm1(Size(errors, 0.5)),
                     100 * std::expm1(Size(errors, 0.9)));
}

}  // namespace

MoeImport ImportMoe(const HardwareSpec& hardware, const std::string& path) {
  std::map<sim::GemmFormat, std::vector<MoeRow>> formats;
  for (const MoeRow& row : ReadMoeRows(path)) formats[row.shape.format].push_back(row);
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
    fit.coefficients = FitMoe(hardware, rows);
    const std::vector<double> in_sample = Errors(hardware, fit.coefficients, rows);
    const std::vector<double> held =
        held_out.empty() ? in_sample : Errors(hardware, FitMoe(hardware, fitted), held_out);
    fit.log_sd = std::round(1e4 * Size(held, 0.9) / kMoeErrorsAtP90) / 1e4;
    result.profile.fits.push_back(fit);
    result.text += fmt::format("# {} rows, in the sample {}; shapes held out {}\n", rows.size(),
                               SizesText(in_sample), SizesText(held));
  }
  sim::DeviceProfile profile;
  profile.moe = result.profile;
  result.text += WriteProfilePart(profile, ProfilePart::kMoe);
  return result;
}

}  // namespace twin::lab
