#include "sim/devices/operations/operation_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/input_error.h"
#include "sim/devices/operations/gemm_table.h"
#include "sim/devices/operations/operation_kinds.h"

namespace twin::sim {
namespace {

constexpr char kNoRatio = '!';

[[noreturn]] void Refuse(std::string_view row, std::string_view what) {
  throw InputError(InputError::Kind::kUsage, std::string(row.substr(0, row.find(':'))),
                   std::string(what));
}

// Up to the next blank, which is taken as well.
std::string_view TakeToken(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::string PrintWord(const double* ratios, std::size_t count) {
  std::vector<double> present;
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isnan(ratios[i])) present.push_back(ratios[i]);
  }
  const std::string codes = EncodeGemmCurve(present);
  std::string word;
  for (std::size_t i = 0, next = 0; i < count && next < codes.size(); ++i) {
    word += std::isnan(ratios[i]) ? kNoRatio : codes[next++];
  }
  return word;
}

void ParseWord(std::string_view row, std::string_view word, std::vector<double>& ratios,
               std::size_t at) {
  std::string codes;
  std::ranges::copy_if(word, std::back_inserter(codes), [](char c) { return c != kNoRatio; });
  if (!IsGemmCurve(codes)) Refuse(row, "has a character that stands for no ratio");
  const std::vector<double> present = DecodeGemmCurve(codes);
  for (std::size_t i = 0, next = 0; i < word.size(); ++i) {
    if (word[i] != kNoRatio) ratios[at + i] = present[next++];
  }
}

// Sizes may be 0, as those of a past.
double Octave(double size) { return std::log2(size + 0.5); }

std::vector<double> Octaves(const std::vector<std::uint32_t>& axis) {
  std::vector<double> octaves;
  for (const std::uint32_t size : axis) octaves.push_back(Octave(size));
  return octaves;
}

bool IsAxis(const std::vector<std::uint32_t>& axis) {
  return !axis.empty() && std::ranges::adjacent_find(axis, std::greater_equal<>{}) == axis.end();
}

}  // namespace

std::string PrintOperationRow(const OperationRow& row, const OperationGrid& grid) {
  std::string text;
  for (const double size : row.shape) fmt::format_to(std::back_inserter(text), "{:g} ", size);
  if (text.empty()) text = " ";
  text.back() = ':';
  const std::size_t count = grid.third.size();
  for (std::size_t word = 0; word < grid.first.size() * grid.second.size(); ++word) {
    text += ' ' + PrintWord(row.log_ratios.data() + word * count, count);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::vector<double> ShapeOfRow(std::string_view text) {
  const std::size_t end = text.find(':');
  if (end == std::string_view::npos) Refuse(text, "must have sizes, and after them a colon");
  std::string_view sizes = text.substr(0, end);
  std::vector<double> shape;
  while (!sizes.empty()) {
    const std::string word(TakeToken(sizes));
    char* last = nullptr;
    shape.push_back(std::strtod(word.c_str(), &last));
    if (word.empty() || *last != '\0' || !(shape.back() > 0)) {
      Refuse(text, "must begin with sizes above 0");
    }
  }
  return shape;
}

OperationRow ParseOperationRow(std::string_view text, const OperationGrid& grid) {
  OperationRow row{ShapeOfRow(text), {}};
  const std::size_t words = grid.first.size() * grid.second.size();
  const std::size_t count = grid.third.size();
  row.log_ratios.assign(words * count, kNoMeasurement);
  std::string_view rest = text.substr(text.find(':') + 1);
  if (!rest.empty()) rest.remove_prefix(1);
  for (std::size_t word = 0; !rest.empty(); ++word) {
    const std::string_view codes = TakeToken(rest);
    if (word >= words || codes.size() > count) Refuse(text, "has more ratios than its grid calls");
    ParseWord(text, codes, row.log_ratios, word * count);
  }
  if (std::ranges::all_of(row.log_ratios, [](double ratio) { return std::isnan(ratio); })) {
    Refuse(text, "has no ratio");
  }
  return row;
}

OperationSurface::OperationSurface(const OperationGrid& grid, std::vector<double> log_ratios)
    : axes_{Octaves(grid.first), Octaves(grid.second), Octaves(grid.third)},
      values_(std::move(log_ratios)) {
  const std::vector<double> measured = values_;
  const std::size_t rows = axes_[1].size();
  const std::size_t columns = axes_[2].size();
  CHECK(measured.size() == axes_[0].size() * rows * columns);
  const auto distance = [&](std::size_t a, std::size_t b) {
    const double first = axes_[0][a / columns / rows] - axes_[0][b / columns / rows];
    const double second = axes_[1][a / columns % rows] - axes_[1][b / columns % rows];
    const double third = axes_[2][a % columns] - axes_[2][b % columns];
    return first * first + second * second + third * third;
  };
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (!std::isnan(measured[i])) continue;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < measured.size(); ++j) {
      if (std::isnan(measured[j])) continue;
      const double far = distance(i, j);
      if (far >= least) continue;
      least = far;
      values_[i] = measured[j];
    }
  }
}

void OperationSurface::Add(const OperationSurface& other, double weight) {
  if (values_.empty()) {
    for (int i = 0; i < 3; ++i) axes_[i] = other.axes_[i];
    values_.assign(other.values_.size(), 0);
  }
  for (std::size_t i = 0; i < values_.size(); ++i) values_[i] += weight * other.values_[i];
}

double OperationSurface::At(double first, double second, double third) const {
  const auto locate = [this](int axis, double size) { return Locate(axes_[axis], Octave(size)); };
  const GridPosition at[3] = {locate(0, first), locate(1, second), locate(2, third)};
  const auto value = [&](std::size_t i, std::size_t j, std::size_t k) {
    return values_[(i * axes_[1].size() + j) * axes_[2].size() + k];
  };
  const auto along_third = [&](std::size_t i, std::size_t j) {
    return std::lerp(value(i, j, at[2].low), value(i, j, at[2].high), at[2].share);
  };
  const auto along_second = [&](std::size_t i) {
    return std::lerp(along_third(i, at[1].low), along_third(i, at[1].high), at[1].share);
  };
  return std::lerp(along_second(at[0].low), along_second(at[0].high), at[0].share);
}

void Validate(const OperationProfile& profile) {
  for (std::size_t i = 0; i < profile.tables.size(); ++i) {
    const OperationTable& table = profile.tables[i];
    const auto refuse = [&](const std::string& what) {
      throw InputError(InputError::Kind::kUsage, fmt::format("operation tables[{}]", i), what);
    };
    const OperationKind* const kind = OperationKindOf(table.kind);
    if (kind == nullptr) refuse(fmt::format("no kind \"{}\"", table.kind));
    if (table.grid >= profile.grids.size()) refuse("grid is none of the profile's");
    const OperationGrid& grid = profile.grids[table.grid];
    if (!IsAxis(grid.first) || !IsAxis(grid.second) || !IsAxis(grid.third)) {
      refuse("the axes of its grid must ascend");
    }
    for (const std::string& row : table.rows) {
      try {
        if (ParseOperationRow(row, grid).shape.size() != kind->shape.size()) {
          refuse(fmt::format("a row has not {} sizes", kind->shape.size()));
        }
      } catch (const InputError& error) {
        refuse(error.what());
      }
    }
  }
}

}  // namespace twin::sim
