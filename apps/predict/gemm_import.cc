#include "apps/predict/gemm_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "apps/predict/gemm_fit.h"
#include "apps/predict/gemm_left_out.h"
#include "config/profile_folder.h"
#include "core/input_error.h"
#include "sim/devices/operations/gemm_closed_form.h"
#include "sim/devices/operations/gemm_table.h"

namespace twin::run {
namespace {

constexpr std::size_t kLeastM = 3;
constexpr std::size_t kLeastShapes = 4;
// From this number of (n, k) on, neighbours predict better than the closed form.
constexpr std::size_t kManyShapes = 40;
// Shapes of one model resemble each other more than shapes of different models.
constexpr double kFewShapesFactor = 2;

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

sim::GemmTable MakeTable(const HardwareSpec& hardware, const sim::GemmFit& fit,
                         sim::KernelLibrary library, const Curves& curves) {
  sim::GemmTable table;
  table.library = library;
  table.format = fit.format;
  table.m = CommonM(fit.format, curves);
  FillCurves(hardware, fit, curves, table);
  return table;
}

// The exponent with the smallest errors of interpolation. The logarithm of the closed form is
// linear in the exponent, and so are the errors.
double FitWholeWaves(const HardwareSpec& hardware, sim::GemmFit fit,
                     const std::map<sim::KernelLibrary, Curves>& libraries,
                     const RunControl& control) {
  std::vector<double> errors[2];
  for (const int exponent : {0, 1}) {
    fit.coefficients.whole_waves = exponent;
    for (const auto& [library, curves] : libraries) {
      const GemmLeftOut left_out = JudgeLeftOut(MakeTable(hardware, fit, library, curves), control);
      for (const GemmJudged* judged : {&left_out.shapes, &left_out.tokens}) {
        errors[exponent].insert(errors[exponent].end(), judged->logs.begin(), judged->logs.end());
      }
    }
  }
  return BestShare(errors[0], errors[1]);
}

std::vector<const sim::GemmTable*> PointersTo(const std::vector<sim::GemmTable>& tables) {
  std::vector<const sim::GemmTable*> pointers;
  for (const sim::GemmTable& table : tables) pointers.push_back(&table);
  return pointers;
}

// The interpolation that best predicts (n, k) that are left out.
void ChooseBetweenShapes(sim::GemmTable& table, const std::vector<sim::GemmTable>& tables,
                         const RunControl& control) {
  sim::GemmBetweenShapes best = table.between_shapes;
  std::vector<double> least = JudgeLeftOut(table, control).shapes.logs;
  for (const auto other : {sim::GemmBetweenShapes::kAdditive, sim::GemmBetweenShapes::kPooled}) {
    table.between_shapes = other;
    std::vector<double> logs =
        JudgeLeftOut(table, control, {.pool = PointersTo(tables)}).shapes.logs;
    if (!IsGain(least, logs)) continue;
    best = other;
    least = std::move(logs);
  }
  table.between_shapes = best;
}

// The densest of the tables that have more m than `table`, or null.
const sim::GemmTable* DenserThan(const sim::GemmTable& table,
                                 const std::vector<sim::GemmTable>& tables) {
  const sim::GemmTable* densest = nullptr;
  for (const sim::GemmTable& other : tables) {
    const std::size_t least = densest == nullptr ? table.m.size() : densest->m.size();
    if (other.m.size() > least) densest = &other;
  }
  return densest;
}

// How much weight the densest table gets for m that `table` lacks.
void ChooseTrend(sim::GemmTable& table, const sim::GemmTable* trend, const RunControl& control) {
  if (trend == nullptr) return;
  table.trend_library = trend->library;
  const std::vector<double> without = JudgeLeftOut(table, control).tokens.logs;
  table.trend_share = 1;
  const std::vector<double> with = JudgeLeftOut(table, control, {.trend = trend}).tokens.logs;
  table.trend_share = BestShare(without, with);
  if (table.trend_share == 0) table.trend_library = sim::KernelLibrary::kVllm;
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
  first.calls = table.calls;
  first.between_shapes = table.between_shapes;
  first.trend_share = table.trend_share;
  first.trend_library = table.trend_library;
  std::string text = WriteProfilePart(head, ProfilePart::kGemm);
  text.resize(text.rfind('}'));
  return fmt::format(
      "{}  shape_sd: [{}]\n  m_sd: [{}]\n  m: [{}]\n  n: [{}]\n  k: [{}]\n  curves: [\n{}]\n}}\n",
      text, ListText(table.shape_sd, "{:.3g}", ", "), ListText(table.m_sd, "{:.3g}", ", "),
      ListText(table.m, "{}", ", "), ListText(table.n, "{}", ", "), ListText(table.k, "{}", ", "),
      ListText(sim::JoinGemmCurves(table), "\"{}\"", ",\n"));
}

std::string ErrorText(const char* what, const ImportError& error) {
  return fmt::format("{} {:.1f} / {:.1f} / {:+.1f}", what, 100 * error.median, 100 * error.p90,
                     100 * error.bias);
}

// The grids of one format that are dense enough for a table.
std::map<sim::KernelLibrary, Curves> GridsOf(const std::vector<GemmRow>& rows) {
  std::map<sim::KernelLibrary, Curves> grids;
  for (const GemmRow& row : rows) grids[row.library][{row.n, row.k}][row.m] = row.seconds;
  std::erase_if(grids, [&](const auto& grid) {
    return CommonM(rows.front().format, grid.second).size() < kLeastM ||
           grid.second.size() < kLeastShapes;
  });
  return grids;
}

// The tables of one format, each with its best interpolation.
std::vector<sim::GemmTable> MakeTables(const HardwareSpec& hardware, const sim::GemmFit& fit,
                                       const std::map<sim::KernelLibrary, Curves>& grids, bool few,
                                       const RunControl& control) {
  std::vector<sim::GemmTable> tables;
  for (const auto& [library, curves] : grids) {
    tables.push_back(MakeTable(hardware, fit, library, curves));
  }
  if (few) return tables;
  for (sim::GemmTable& table : tables) ChooseBetweenShapes(table, tables, control);
  for (sim::GemmTable& table : tables) ChooseTrend(table, DenserThan(table, tables), control);
  return tables;
}

// The spread of a table's predictions, from their errors.
void SetDeviations(const GemmLeftOut& left_out, bool few, sim::GemmTable& table) {
  table.shape_sd = left_out.shapes.Deviations();
  table.m_sd = left_out.tokens.Deviations();
  if (few) {
    for (double& sd : table.shape_sd) sd *= kFewShapesFactor;
  }
}

// Appends the closed form and the tables of one format's rows.
void ImportFormat(const HardwareSpec& hardware, const std::vector<GemmRow>& rows,
                  const RunControl& control, GemmImport& result) {
  std::set<Shape> shapes;
  for (const GemmRow& row : rows) shapes.insert({row.n, row.k});
  const bool few = shapes.size() < kManyShapes;
  const std::map<sim::KernelLibrary, Curves> grids = GridsOf(rows);
  const sim::GemmFit closed_form =
      FitGemm(hardware, rows, control, few || rows.front().format != sim::GemmFormat::kBf16);
  sim::GemmFit fit = closed_form;
  if (!few && !grids.empty()) {
    fit.coefficients.whole_waves = FitWholeWaves(hardware, fit, grids, control);
  }
  result.profile.fits.push_back(fit);
  std::vector<sim::GemmTable> tables = MakeTables(hardware, fit, grids, few, control);
  for (sim::GemmTable& table : tables) {
    std::vector<GemmRow> of_library;
    std::ranges::copy_if(rows, std::back_inserter(of_library),
                         [&](const GemmRow& row) { return row.library == table.library; });
    const std::vector<const sim::GemmTable*> pool = PointersTo(tables);
    const sim::GemmTable* trend = table.trend_share > 0 ? DenserThan(table, tables) : nullptr;
    const GemmLeftOut left_out = JudgeLeftOut(table, control, {.pool = pool, .trend = trend});
    result.errors.push_back({.closed_form = ImportErrorOf(
                                 GemmFitErrors(hardware, closed_form.coefficients, of_library)),
                             .left_out_shape = ImportErrorOf(left_out.shapes.logs),
                             .left_out_m = ImportErrorOf(left_out.tokens.logs)});
    SetDeviations(left_out, few, table);
  }
  std::ranges::move(tables, std::back_inserter(result.profile.tables));
}

// How each library's calls were measured; single calls where `rows` does not say.
void SetCalls(const GemmRows& rows, sim::GemmProfile& profile) {
  for (sim::GemmTable& table : profile.tables) {
    const auto found = rows.calls.find(table.library);
    if (found != rows.calls.end()) table.calls = found->second;
  }
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
    ImportFormat(hardware, of_format, control, result);
  }
  SetCalls(rows, result.profile);
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

}  // namespace twin::run
