#include "lab/import/gemm_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "core/input_error.h"
#include "lab/import/gemm_fit.h"
#include "proto/profile_file.h"
#include "sim/cost/operations/gemm_closed_form.h"
#include "sim/cost/operations/gemm_table.h"

namespace twin::lab {
namespace {

constexpr std::size_t kLeastM = 3;
constexpr std::size_t kLeastShapes = 4;
// From this number of (n, k) on, neighbours say more than the closed form.
constexpr std::size_t kManyShapes = 40;
// Shapes of one model resemble each other more than those of another.
constexpr double kFewShapesFactor = 2;
constexpr double kDeviationsAtP90 = 1.645;

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

ImportError ErrorOf(const std::vector<double>& logs) {
  std::vector<double> sizes;
  for (const double log : logs) sizes.push_back(std::abs(std::expm1(log)));
  return {.rows = static_cast<std::int64_t>(logs.size()),
          .median = Quantile(sizes, 0.5),
          .p90 = Quantile(sizes, 0.9),
          .bias = std::expm1(Quantile(logs, 0.5))};
}

// Errors by range of m, each also over its kriging deviation.
struct Judged {
  std::vector<double> logs;
  std::vector<double> in_deviations[sim::kGemmRanges];

  void Add(std::int64_t m, double log, double variance) {
    logs.push_back(log);
    if (variance > 0) {
      in_deviations[sim::GemmRangeOf(m)].push_back(std::abs(log) / std::sqrt(variance));
    }
  }
  [[nodiscard]] std::vector<double> Deviations() const {
    std::vector<double> all;
    for (const auto& range : in_deviations) {
      // To three digits, as files hold it.
      all.push_back(std::round(1e3 * Quantile(range, 0.9) / kDeviationsAtP90) / 1e3);
    }
    return all;
  }
};

using Shape = std::pair<std::int64_t, std::int64_t>;
using Curves = std::map<Shape, std::map<std::int64_t, double>>;  // (n, k), m, seconds

// Formats other than bf16 keep fewer of the smallest m, whose times hardly differ.
bool IsKept(sim::GemmFormat format, std::int64_t m) {
  return format == sim::GemmFormat::kBf16 || m > 16 || m % 4 == 0 || m <= 2;
}

// The m that at least half of the (n, k) were measured at.
std::vector<std::uint32_t> CommonM(sim::GemmFormat format, const Curves& curves) {
  std::map<std::int64_t, std::size_t> counts;
  for (const auto& [shape, curve] : curves) {
    for (const auto& [m, seconds] : curve) ++counts[m];
  }
  std::vector<std::uint32_t> common;
  for (const auto& [m, count] : counts) {
    if (2 * count >= curves.size() && IsKept(format, m))
      common.push_back(static_cast<std::uint32_t>(m));
  }
  return common;
}

void FillCurves(const HardwareSpec& hardware, const sim::GemmFit& fit, const Curves& curves,
                sim::GemmTable& table) {
  std::set<std::uint32_t> n;
  std::set<std::uint32_t> k;
  for (const auto& [shape, curve] : curves) {
    n.insert(static_cast<std::uint32_t>(shape.first));
    k.insert(static_cast<std::uint32_t>(shape.second));
  }
  table.n.assign(n.begin(), n.end());
  table.k.assign(k.begin(), k.end());
  for (const std::uint32_t at_n : table.n) {
    for (const std::uint32_t at_k : table.k) {
      std::string& text = table.curves.emplace_back();
      const auto found = curves.find({at_n, at_k});
      if (found == curves.end()) continue;
      std::vector<double> ratios;
      for (const std::uint32_t m : table.m) {
        const auto at = found->second.find(m);
        if (at == found->second.end()) break;
        const sim::GemmShape shape{.m = m, .n = at_n, .k = at_k, .format = fit.format};
        ratios.push_back(
            std::log(at->second / sim::GemmClosedForm(hardware, fit.coefficients, shape)));
      }
      if (ratios.size() == table.m.size()) text = sim::EncodeGemmCurve(ratios);
    }
  }
}

void JudgeTable(sim::GemmTable& table, GemmTableErrors& errors) {
  Judged shapes;
  Judged tokens;
  for (std::size_t i = 0; i < table.n.size(); ++i) {
    for (std::size_t j = 0; j < table.k.size(); ++j) {
      if (table.curves[i * table.k.size() + j].empty()) continue;
      const std::vector<double> own = sim::DecodeGemmCurve(table.curves[i * table.k.size() + j]);
      const sim::GemmCurveRatios left_out = CurveAt(table, table.n[i], table.k[j], true);
      for (std::size_t at = 0; at < own.size(); ++at) {
        shapes.Add(table.m[at], left_out.log_ratios[at] - own[at], left_out.variance);
        if (at == 0 || at + 1 == own.size()) continue;
        const sim::GemmRatio ratio = RatioAt(table, own, table.m[at], true);
        tokens.Add(table.m[at], ratio.log_ratio - own[at], ratio.variance);
      }
    }
  }
  table.shape_sd = shapes.Deviations();
  table.m_sd = tokens.Deviations();
  errors.left_out_shape = ErrorOf(shapes.logs);
  errors.left_out_m = ErrorOf(tokens.logs);
}

template <class Values>
std::string ListText(const Values& values, const char* format, const char* separator) {
  std::string text;
  for (const auto& value : values) {
    if (!text.empty()) text += separator;
    fmt::format_to(std::back_inserter(text), fmt::runtime(format), value);
  }
  return text;
}

std::string TableText(const sim::GemmTable& table) {
  sim::DeviceProfile head;
  sim::GemmTable& first = head.gemm.tables.emplace_back();
  first.library = table.library;
  first.format = table.format;
  std::string text = WriteProfilePart(head, ProfilePart::kGemm);
  text.resize(text.rfind('}'));
  return fmt::format(
      "{}  shape_sd: [{}]\n  m_sd: [{}]\n  m: [{}]\n  n: [{}]\n  k: [{}]\n  curves: [\n{}]\n}}\n",
      text, ListText(table.shape_sd, "{:.3g}", ", "), ListText(table.m_sd, "{:.3g}", ", "),
      ListText(table.m, "{}", ", "), ListText(table.n, "{}", ", "), ListText(table.k, "{}", ", "),
      ListText(table.curves, "\"{}\"", ",\n"));
}

std::string ErrorText(const char* what, const ImportError& error) {
  return fmt::format("{} {:.1f} / {:.1f} / {:+.1f}", what, 100 * error.median, 100 * error.p90,
                     100 * error.bias);
}

}  // namespace

GemmImport ImportGemm(const HardwareSpec& hardware, const GemmRows& rows, RunControl& control) {
  if (rows.rows.empty()) {
    throw InputError(InputError::Kind::kData, hardware.name, "no row; allowed: one or more");
  }
  std::map<sim::GemmFormat, std::vector<GemmRow>> formats;
  for (const GemmRow& row : rows.rows) formats[row.format].push_back(row);
  GemmImport result;
  std::uint64_t done = 0;
  for (const auto& [format, of_format] : formats) {
    control.OnProgress("GEMM formats fitted", done++, formats.size());
    std::set<Shape> shapes;
    for (const GemmRow& row : of_format) shapes.insert({row.n, row.k});
    const bool few = shapes.size() < kManyShapes;
    const sim::GemmFit fit = FitGemm(hardware, of_format, few || format != sim::GemmFormat::kBf16);
    result.profile.fits.push_back(fit);
    std::map<sim::KernelLibrary, std::vector<GemmRow>> libraries;
    for (const GemmRow& row : of_format) libraries[row.library].push_back(row);
    for (const auto& [library, of_library] : libraries) {
      Curves curves;
      for (const GemmRow& row : of_library) curves[{row.n, row.k}][row.m] = row.seconds;
      sim::GemmTable table;
      table.library = library;
      table.format = format;
      table.m = CommonM(format, curves);
      if (table.m.size() < kLeastM || curves.size() < kLeastShapes) continue;
      FillCurves(hardware, fit, curves, table);
      GemmTableErrors errors;
      errors.closed_form = ErrorOf(GemmFitErrors(hardware, fit.coefficients, of_library));
      JudgeTable(table, errors);
      if (few) {
        for (double& sd : table.shape_sd) sd *= kFewShapesFactor;
      }
      result.profile.tables.push_back(std::move(table));
      result.errors.push_back(errors);
    }
  }
  control.OnProgressEnd();
  return result;
}

std::string WriteGemmImport(const GemmImport& import, const GemmRows& rows,
                            const std::string& origin) {
  std::string text = fmt::format(
      "# {}\n# Versions: {}. {} rows.\n# Relative errors in %, median / p90 / bias: of the closed "
      "form on all rows; with each (n, k), and\n# each m, left out and interpolated from the "
      "others.\n",
      origin, fmt::join(rows.versions, ", "), rows.rows.size());
  sim::DeviceProfile fits;
  fits.gemm.fits = import.profile.fits;
  text += WriteProfilePart(fits, ProfilePart::kGemm);
  for (std::size_t i = 0; i < import.profile.tables.size(); ++i) {
    const GemmTableErrors& errors = import.errors[i];
    text += fmt::format("# {}; {}; {}\n", ErrorText("closed form", errors.closed_form),
                        ErrorText("left-out (n, k)", errors.left_out_shape),
                        ErrorText("left-out m", errors.left_out_m));
    text += TableText(import.profile.tables[i]);
  }
  return text;
}

}  // namespace twin::lab
