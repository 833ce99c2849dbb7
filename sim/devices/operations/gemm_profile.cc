#include "sim/devices/operations/gemm_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "core/input_error.h"
#include "sim/devices/operations/gemm_table.h"

namespace twin::sim {
namespace {

[[noreturn]] void Refuse(std::size_t table, std::string_view field, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, fmt::format("tables[{}].{}", table, field), what);
}

void RequireAxis(std::size_t table, std::string_view field,
                 const std::vector<std::uint32_t>& values) {
  if (values.empty() ||
      std::ranges::adjacent_find(values, std::greater_equal<>()) != values.end()) {
    Refuse(table, field, "is no ascending list; allowed: one or more ascending numbers");
  }
}

void RequireDeviations(std::size_t table, std::string_view field,
                       const std::vector<double>& values) {
  if (values.size() == kGemmRanges) return;
  Refuse(table, field, fmt::format("has {} values; allowed: {}", values.size(), kGemmRanges));
}

void RequireCurves(std::size_t index, const GemmTable& table) {
  const std::size_t shapes = table.n.size() * table.k.size();
  if (table.curves.size() != shapes) {
    Refuse(index, "curves",
           fmt::format("has {} curves; allowed: {}, one per (n, k)", table.curves.size(), shapes));
  }
  bool any = false;
  for (std::size_t i = 0; i < shapes; ++i) {
    const std::string& curve = table.curves[i];
    any = any || !curve.empty();
    if (curve.empty() || (curve.size() == table.m.size() && IsGemmCurve(curve))) continue;
    Refuse(index, "curves",
           fmt::format("curve {} has {} characters; allowed: none, or {} characters from # to ~ "
                       "without \\",
                       i, curve.size(), table.m.size()));
  }
  if (!any) Refuse(index, "curves", "are all empty; allowed: one or more that are not");
}

void RequireTrend(const GemmProfile& profile, std::size_t index) {
  const GemmTable& table = profile.tables[index];
  if (table.trend_share == 0) return;
  const bool found = std::ranges::any_of(profile.tables, [&](const GemmTable& other) {
    return other.library == table.trend_library && other.format == table.format &&
           other.library != table.library && other.trend_share == 0;
  });
  if (!found) {
    Refuse(index, "trend_library",
           "names no trend; allowed: the library of another table of this format that has no "
           "trend itself");
  }
}

}  // namespace

void Validate(const GemmProfile& profile) {
  for (std::size_t i = 0; i < profile.tables.size(); ++i) {
    const GemmTable& table = profile.tables[i];
    RequireAxis(i, "m", table.m);
    RequireAxis(i, "n", table.n);
    RequireAxis(i, "k", table.k);
    RequireDeviations(i, "shape_sd", table.shape_sd);
    RequireDeviations(i, "m_sd", table.m_sd);
    RequireCurves(i, table);
    RequireTrend(profile, i);
    if (std::ranges::find(profile.fits, table.format, &GemmFit::format) == profile.fits.end()) {
      Refuse(i, "format", "has no fit; allowed: a format of fits");
    }
  }
}

}  // namespace twin::sim
