#include "sim/devices/operations/moe_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "core/input_error.h"
#include "sim/devices/operations/gemm_table.h"
#include "sim/devices/operations/kriging.h"

namespace twin::sim {
namespace {

constexpr KrigingRules kMoeRules{.neighbours = 12, .nugget = 0.05};
// Distance at which the covariance has fallen to 1/e, in octaves.
constexpr double kMoeRange = 2;
constexpr double kIntermediateWeight = 2;

double Octaves(std::int32_t a, std::int32_t b) {
  return std::log2(static_cast<double>(a) / static_cast<double>(b));
}

double MoeCovariance(const MoeShape& a, const MoeShape& b) {
  const double sizes = std::hypot(Octaves(a.hidden, b.hidden), Octaves(a.experts, b.experts),
                                  Octaves(a.experts_per_token, b.experts_per_token));
  const double width = kIntermediateWeight * Octaves(a.intermediate, b.intermediate);
  return std::exp(-std::hypot(sizes, width) / kMoeRange);
}

bool IsSame(const MoeShape& a, const MoeShape& b) {
  return a.hidden == b.hidden && a.intermediate == b.intermediate && a.experts == b.experts &&
         a.experts_per_token == b.experts_per_token;
}

[[noreturn]] void Refuse(std::size_t row, std::string_view what) {
  throw InputError(InputError::Kind::kUsage, fmt::format("rows[{}]", row), std::string(what));
}

// Up to the next blank, which is taken as well.
std::string_view TakeWord(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::int32_t TakeSize(std::string_view& text, std::size_t row) {
  const std::string_view word = TakeWord(text);
  std::int32_t size = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), size);
  if (error != std::errc{} || end != word.data() + word.size() || size < 1) {
    Refuse(row, "must begin with four sizes of at least 1, as 4096 14336 8 2");
  }
  return size;
}

}  // namespace

std::string PrintMoeRow(const MoeShape& model, const std::vector<std::vector<double>>& curves) {
  std::string row = fmt::format("{} {} {} {}", model.hidden, model.intermediate, model.experts,
                                model.experts_per_token);
  for (const std::vector<double>& curve : curves) {
    row += ' ';
    row += EncodeGemmCurve(curve);
  }
  row.erase(row.find_last_not_of(' ') + 1);
  return row;
}

std::vector<MoeMeasurement> ParseMoeRows(const MoeTable& table) {
  std::vector<MoeMeasurement> all;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    std::string_view text = table.rows[row];
    MoeShape model{.format = table.format};
    model.hidden = TakeSize(text, row);
    model.intermediate = TakeSize(text, row);
    model.experts = TakeSize(text, row);
    model.experts_per_token = TakeSize(text, row);
    for (int i = 0; i < kMoeRankCounts; ++i) {
      const std::string_view curve = TakeWord(text);
      if (curve.empty()) continue;
      if (curve.size() != table.tokens.size() || !IsGemmCurve(curve)) {
        Refuse(row, "must have curves of one character per number of tokens");
      }
      MoeShape shape = model;
      shape.intermediate = std::max(1, model.intermediate >> i);
      all.push_back({shape, DecodeGemmCurve(curve)});
    }
    if (!text.empty()) Refuse(row, "has more than four curves");
  }
  return all;
}

MoeCurve CurveOf(const std::vector<MoeMeasurement>& measured, const MoeShape& shape) {
  for (const MoeMeasurement& one : measured) {
    if (IsSame(one.shape, shape)) return {one.log_ratios, 0};
  }
  const KrigingWeights weights = Krige(
      measured.size(), measured.size(), kMoeRules,
      [&](std::size_t i) { return MoeCovariance(measured[i].shape, shape); },
      [&](std::size_t i, std::size_t j) {
        return MoeCovariance(measured[i].shape, measured[j].shape);
      });
  MoeCurve curve{std::vector<double>(measured.front().log_ratios.size(), 0.0), weights.variance};
  for (std::size_t i = 0; i < weights.count; ++i) {
    const std::vector<double>& other = measured[weights.points[i]].log_ratios;
    for (std::size_t t = 0; t < other.size(); ++t) {
      curve.log_ratios[t] += weights.weights[i] * other[t];
    }
  }
  return curve;
}

void Validate(const MoeProfile& profile) {
  for (std::size_t i = 0; i < profile.tables.size(); ++i) {
    const MoeTable& table = profile.tables[i];
    const std::string where = fmt::format("moe tables[{}]", i);
    const auto refuse = [&](const std::string& what) {
      throw InputError(InputError::Kind::kUsage, where, what);
    };
    if (table.tokens.empty() || table.tokens.front() < 1 ||
        std::ranges::adjacent_find(table.tokens, std::greater_equal<>{}) != table.tokens.end()) {
      refuse("tokens must be positive and ascend");
    }
    if (std::ranges::find(profile.fits, table.format, &MoeFit::format) == profile.fits.end()) {
      refuse("its format must have a fit");
    }
    try {
      if (ParseMoeRows(table).empty()) refuse("must have a row with a curve");
    } catch (const InputError& error) {
      refuse(error.what());
    }
  }
}

}  // namespace twin::sim
