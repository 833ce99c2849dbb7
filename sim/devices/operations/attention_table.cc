#include "sim/devices/operations/attention_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "core/input_error.h"
#include "sim/devices/operations/prompt_kriging.h"
#include "sim/devices/token_table.h"

namespace twin::sim {
namespace {

constexpr int kLevels = 44;  // on each side of 0
constexpr double kStep = 0.08;
constexpr double kUnit = 0.1;
constexpr char kMissing = '_';
constexpr double kHeadScale = 0.25;
constexpr double kOwnRow = 3;  // a measurement of the very call weighs e^3 neighbors
// Libraries have kernels of their own for single query heads and for groups above a tile.
constexpr double kOtherClass = 9;  // distance^2
constexpr std::int32_t kGroupMax = 32;
constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

bool Reserved(char c) { return c == '"' || c == '\'' || c == '\\' || c == kMissing; }

const std::string& Letters() {
  static const std::string letters = [] {
    std::string all;
    for (char c = '!'; c <= '~'; ++c) {
      if (!Reserved(c) && static_cast<int>(all.size()) <= 2 * kLevels) all.push_back(c);
    }
    return all;
  }();
  return letters;
}

// The level of each character; -1 if it stands for none.
const std::array<int, 256>& LevelOf() {
  static const std::array<int, 256> levels = [] {
    std::array<int, 256> all{};
    all.fill(-1);
    for (std::size_t i = 0; i < Letters().size(); ++i) {
      all[static_cast<unsigned char>(Letters()[i])] = static_cast<int>(i);
    }
    return all;
  }();
  return levels;
}

const std::array<double, 2 * kLevels + 1>& ValueOf() {
  static const std::array<double, 2 * kLevels + 1> values = [] {
    std::array<double, 2 * kLevels + 1> all{};
    for (int i = -kLevels; i <= kLevels; ++i) {
      all[static_cast<std::size_t>(i + kLevels)] = kUnit * std::sinh(kStep * i);
    }
    return all;
  }();
  return values;
}

char LetterFor(double log_ratio) {
  const double level = std::round(std::asinh(log_ratio / kUnit) / kStep);
  const double clamped = std::clamp(level, -1.0 * kLevels, 1.0 * kLevels);
  return Letters()[static_cast<std::size_t>(clamped + kLevels)];
}

[[noreturn]] void Refuse(const std::string& source, std::string_view row, std::string_view why) {
  throw InputError(InputError::Kind::kUsage, source,
                   fmt::format("row \"{}\": {}", row.substr(0, 24), why));
}

std::int32_t TakeCount(std::string_view& text, char end, std::string_view row,
                       const std::string& source) {
  std::int32_t count = 0;
  const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const auto used = static_cast<std::size_t>(next - text.data());
  if (error != std::errc{} || count < 1 || used >= text.size() || *next != end) {
    Refuse(source, row, "must begin with two numbers of heads, as 32/8");
  }
  text.remove_prefix(used + 1);
  return count;
}

double Squared(double x) { return x * x; }

std::vector<double> Logarithms(const std::vector<std::uint32_t>& values) {
  std::vector<double> logs;
  for (const std::uint32_t value : values) logs.push_back(std::log2(value));
  return logs;
}

// A measured row seen from the heads that are asked for.
struct Neighbor {
  const double* log_ratios = nullptr;
  double heads = 0;     // log2 of its heads over the heads asked for
  double distance = 0;  // squared, of the group
  bool same = false;    // the very heads that are asked for
};

struct Candidate {
  double distance = 0;
  double log_ratio = 0;
};

// The weighted mean of the candidates and its uncertainty; none: not measured.
LogRatio Combine(const std::vector<Candidate>& candidates, double spread) {
  if (candidates.empty()) return {kNotMeasured, 0};
  double nearest = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : candidates) nearest = std::min(nearest, candidate.distance);
  double weights = 0;
  double sum = 0;
  double squares = 0;
  for (const Candidate& candidate : candidates) {
    if (candidate.distance > nearest + 12) continue;
    const double weight = std::exp(nearest - candidate.distance);
    weights += weight;
    sum += weight * candidate.log_ratio;
    squares += weight * Squared(candidate.log_ratio);
  }
  const double mean = sum / weights;
  const double variance = std::max(0.0, squares / weights - Squared(mean));
  return {mean, std::sqrt(Squared(spread) * (1 + std::clamp(nearest, 0.0, 36.0) / 4) + variance)};
}

// The number of heads by which the table's calls fill the device.
double HeadsOf(const AttentionTable& table, std::int32_t query_heads, std::int32_t kv_heads) {
  if (table.by_query_heads) return query_heads;
  if (table.kind == AttentionKind::kContext) return kv_heads;
  return ReadingHeads(table.generation, query_heads, kv_heads);
}

LogRatio Mixed(const LogRatio& x, const LogRatio& y, double share) {
  return {x.mean + share * (y.mean - x.mean), x.sd + share * (y.sd - x.sd)};
}

}  // namespace

AttentionRow ParseAttentionRow(const AttentionGrid& grid, std::string_view text,
                               const std::string& source) {
  const std::string_view whole = text;
  AttentionRow row;
  row.query_heads = TakeCount(text, '/', whole, source);
  row.kv_heads = TakeCount(text, ' ', whole, source);
  if (row.query_heads % row.kv_heads != 0) {
    Refuse(source, whole, "query heads must be a multiple of KV heads");
  }
  const std::size_t lengths = grid.lengths.size();
  row.log_ratios.assign(grid.batches.size() * lengths, kNotMeasured);
  std::size_t batch = 0;
  std::size_t length = 0;
  for (const char c : text) {
    if (c == ' ') {
      ++batch;
      length = 0;
      continue;
    }
    if (batch >= grid.batches.size()) Refuse(source, whole, "has more groups than batch sizes");
    if (length >= lengths) Refuse(source, whole, "has more characters than lengths");
    const int level = LevelOf()[static_cast<unsigned char>(c)];
    if (c != kMissing) {
      if (level < 0) Refuse(source, whole, "has a character that stands for no ratio");
      row.log_ratios[batch * lengths + length] = ValueOf()[static_cast<std::size_t>(level)];
    }
    ++length;
  }
  return row;
}

std::string PrintAttentionRow(const AttentionGrid& grid, const AttentionRow& row) {
  std::string text = fmt::format("{}/{}", row.query_heads, row.kv_heads);
  for (std::size_t b = 0; b < grid.batches.size(); ++b) {
    std::string group;
    for (std::size_t l = 0; l < grid.lengths.size(); ++l) {
      const double ratio = row.log_ratios[b * grid.lengths.size() + l];
      group.push_back(std::isnan(ratio) ? kMissing : LetterFor(ratio));
    }
    group.erase(group.find_last_not_of(kMissing) + 1);
    text += ' ';
    text += group;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

// The heads of a row are digits and a slash, which stand for ratios in the middle of the scale.
std::size_t CutRatios(std::string_view row) {
  const char ends[] = {Letters().front(), Letters().back()};
  return static_cast<std::size_t>(
      std::ranges::count_if(row, [&](char c) { return c == ends[0] || c == ends[1]; }));
}

double LargestRatio() { return std::exp(ValueOf().back()); }

bool Kriges(const AttentionTable& table) {
  return table.kind == AttentionKind::kContext && table.base < 0;
}

struct AttentionCorrection::Points {
  // REQUIRES: rows.
  Points(AttentionTable of, const AttentionGrid& grid, std::vector<AttentionRow> measured,
         std::int32_t asked_query_heads, std::int32_t asked_kv_heads, int left_out);

  // The correction at a point of the grid.
  [[nodiscard]] LogRatio At(std::size_t batch, std::size_t length) const {
    const auto place = static_cast<std::int64_t>(batch * lengths.size() + length);
    const double mean = means_.At(place, [&](std::int64_t /*place*/) {
      const LogRatio computed = Compute(batch, length);
      sds_.Store(place, computed.sd);
      return computed.mean;
    });
    return {mean,
            sds_.At(place, [&](std::int64_t /*place*/) { return Compute(batch, length).sd; })};
  }

  AttentionTable table;
  std::vector<double> batches;  // logarithms to base 2
  std::vector<double> lengths;
  bool kriges = false;
  std::optional<AttentionCorrection> base;

 private:
  [[nodiscard]] LogRatio Compute(std::size_t batch, std::size_t length) const;
  [[nodiscard]] LogRatio Mean(std::size_t batch, std::size_t length) const;
  [[nodiscard]] PromptCall CallAt(std::int32_t of_query_heads, std::int32_t of_kv_heads,
                                  std::size_t batch, std::size_t length) const {
    return {.query_heads = of_query_heads,
            .kv_heads = of_kv_heads,
            .requests = std::exp2(batches[batch]),
            .tokens = std::exp2(lengths[length])};
  }
  // Holds all measured calls; built when it is first needed.
  [[nodiscard]] const PromptKriging& Kriging() const;

  std::vector<AttentionRow> rows_;  // but the one that is left out
  std::int32_t query_heads_;
  std::int32_t kv_heads_;
  std::vector<Neighbor> neighbors_;    // the rows
  const AttentionRow* own_ = nullptr;  // the row of the heads that are asked for
  mutable std::once_flag kriging_built_;
  mutable PromptKriging kriging_;
  TokenTable means_;
  TokenTable sds_;
};

AttentionCorrection::Points::Points(AttentionTable of, const AttentionGrid& grid,
                                    std::vector<AttentionRow> measured,
                                    std::int32_t asked_query_heads, std::int32_t asked_kv_heads,
                                    int left_out)
    : table(std::move(of)),
      batches(Logarithms(grid.batches)),
      lengths(Logarithms(grid.lengths)),
      rows_(std::move(measured)),
      query_heads_(asked_query_heads),
      kv_heads_(asked_kv_heads),
      kriging_(table.context),
      means_(batches.size() * lengths.size()),
      sds_(batches.size() * lengths.size()) {
  if (left_out >= 0) rows_.erase(rows_.begin() + left_out);
  const std::int32_t group = query_heads_ / kv_heads_;
  for (const AttentionRow& row : rows_) {
    const std::int32_t other = row.query_heads / row.kv_heads;
    const bool other_class =
        (other == 1) != (group == 1) || (other > kGroupMax) != (group > kGroupMax);
    const double distance =
        Squared(std::log2(static_cast<double>(other) / group) / table.group_scale) +
        (other_class ? kOtherClass : 0);
    const double heads =
        HeadsOf(table, row.query_heads, row.kv_heads) / HeadsOf(table, query_heads_, kv_heads_);
    const bool same = row.query_heads == query_heads_ && row.kv_heads == kv_heads_;
    neighbors_.push_back({row.log_ratios.data(), std::log2(heads), distance, same});
    if (same) own_ = &row;
  }
}

LogRatio AttentionCorrection::Points::Compute(std::size_t batch, std::size_t length) const {
  const bool measured =
      own_ != nullptr && !std::isnan(own_->log_ratios[batch * lengths.size() + length]);
  LogRatio result;
  if (kriges && !measured && !Kriging().empty()) {
    const LogRatio kriged = Kriging()(CallAt(query_heads_, kv_heads_, batch, length));
    result = {kriged.mean, table.spread * kriged.sd};
  } else {
    result = Mean(batch, length);
  }
  if (base) result.mean += (*base)(std::exp2(batches[batch]), std::exp2(lengths[length])).mean;
  return result;
}

// The weighted mean of the rows.
LogRatio AttentionCorrection::Points::Mean(std::size_t batch, std::size_t length) const {
  std::vector<Candidate> candidates;
  for (const Neighbor& neighbor : neighbors_) {
    for (std::size_t other = 0; other < batches.size(); ++other) {
      const double ratio = neighbor.log_ratios[other * lengths.size() + length];
      if (std::isnan(ratio)) continue;
      const double step = batches[other] - batches[batch];
      const double distance = neighbor.distance + Squared((step + neighbor.heads) / kHeadScale) +
                              Squared(neighbor.heads / table.batch_scale);
      candidates.push_back({neighbor.same && other == batch ? -kOwnRow : distance, ratio});
    }
  }
  const LogRatio mean = Combine(candidates, table.spread);
  if (!std::isnan(mean.mean)) return mean;
  // No row has this length: as at the next shorter one, or without correction.
  return length > 0 ? Mean(batch, length - 1) : LogRatio{0, 2 * table.spread};
}

const PromptKriging& AttentionCorrection::Points::Kriging() const {
  std::call_once(kriging_built_, [&] {
    for (const AttentionRow& row : rows_) {
      for (std::size_t cell = 0; cell < row.log_ratios.size(); ++cell) {
        const double ratio = row.log_ratios[cell];
        if (std::isnan(ratio)) continue;
        const PromptCall call =
            CallAt(row.query_heads, row.kv_heads, cell / lengths.size(), cell % lengths.size());
        kriging_.Add(call, ratio);
      }
    }
  });
  return kriging_;
}

AttentionCorrection::AttentionCorrection(AttentionTable table, const AttentionGrid& grid,
                                         std::vector<AttentionRow> rows, std::int32_t query_heads,
                                         std::int32_t kv_heads, int left_out)
    : sd_(table.spread) {
  if (rows.empty()) return;
  points_ = std::make_shared<Points>(std::move(table), grid, std::move(rows), query_heads, kv_heads,
                                     left_out);
}

void AttentionCorrection::KrigePrompts() {
  if (points_ != nullptr) points_->kriges = true;
}

void AttentionCorrection::AddBase(AttentionCorrection base) {
  if (points_ != nullptr) points_->base.emplace(std::move(base));
}

LogRatio AttentionCorrection::AtPoint(const GridPosition& batch, std::size_t length) const {
  return Mixed(points_->At(batch.low, length), points_->At(batch.high, length), batch.share);
}

GridPosition AttentionCorrection::PositionOf(double batch) const {
  return points_ == nullptr ? GridPosition{} : Locate(points_->batches, std::log2(batch));
}

LogRatio AttentionCorrection::At(const GridPosition& batch, double length) const {
  if (points_ == nullptr) return {0, sd_};
  const GridPosition l = Locate(points_->lengths, std::log2(length));
  return Mixed(AtPoint(batch, l.low), AtPoint(batch, l.high), l.share);
}

double AttentionCorrection::MeanAt(const GridPosition& batch, double length,
                                   Segment& segment) const {
  if (points_ == nullptr) return 0;
  const double octaves = std::log2(length);
  if (!(octaves >= segment.from && octaves < segment.to)) [[unlikely]] {
    const std::vector<double>& lengths = points_->lengths;
    const GridPosition l = Locate(lengths, octaves);
    segment = {lengths[l.low], lengths[l.high], AtPoint(batch, l.low).mean,
               AtPoint(batch, l.high).mean};
    if (l.low == l.high) return segment.at_from;
  }
  const double share = (octaves - segment.from) / (segment.to - segment.from);
  return segment.at_from + share * (segment.at_to - segment.at_from);
}

LogRatio AttentionCorrection::operator()(double batch, double length) const {
  return At(PositionOf(batch), length);
}

namespace {

void Require(bool holds, const std::string& where, const char* what) {
  if (!holds) throw InputError(InputError::Kind::kUsage, where, what);
}

void ValidateTable(const AttentionProfile& profile, std::size_t index) {
  const AttentionTable& table = profile.tables[index];
  const std::string where = fmt::format("tables[{}]", index);
  Require(table.head_dim > 0, where, "head_dim must be positive");
  Require(table.rows.empty() || table.grid < profile.grids.size(), where,
          "grid must be the position of one of the grids");
  if (table.base >= 0) {
    const auto base = static_cast<std::size_t>(table.base);
    Require(base < profile.tables.size() && profile.tables[base].base < 0 &&
                profile.tables[base].kind == table.kind,
            where, "base must be the position of a table of the same kind without a base");
  }
  ContextKernel context = table.context;
  GenerationKernel generation = table.generation;
  for (const double* number : context.fields()) {
    Require(*number > 0, where, "the numbers of its kernel must be positive");
  }
  for (const double* number : generation.fields()) {
    Require(*number > 0, where, "the numbers of its kernel must be positive");
  }
  for (const std::string& row : table.rows) {
    static_cast<void>(ParseAttentionRow(profile.grids[table.grid], row, where));
  }
}

}  // namespace

void Validate(const AttentionProfile& profile) {
  const auto ascend = [](const std::vector<std::uint32_t>& values) {
    return !values.empty() && values.front() > 0 &&
           std::ranges::adjacent_find(values, std::greater_equal<>{}) == values.end();
  };
  for (std::size_t i = 0; i < profile.grids.size(); ++i) {
    Require(ascend(profile.grids[i].batches) && ascend(profile.grids[i].lengths),
            fmt::format("grids[{}]", i), "batches and lengths must be positive and ascend");
  }
  for (std::size_t i = 0; i < profile.tables.size(); ++i) ValidateTable(profile, i);
}

}  // namespace twin::sim
