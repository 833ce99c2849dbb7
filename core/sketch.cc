#include "core/sketch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "core/check.h"
#include "core/statistics.h"

namespace twin {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr int kBits = 10;  // leading bits that a bucket's values share
constexpr std::size_t kHalf = std::size_t{1} << (kBits - 1);
constexpr std::size_t kFirstEntries = 64;

// Radix sort, least significant digit first, up to the highest digit in use. A comparison sort
// would mispredict its branches, because the values are nearly random: it took half of the time of
// a short run.
template <class Entry>
void SortByValue(std::vector<Entry>& entries) {
  constexpr int kDigitBitsMax = 11;
  // Counting few entries takes less time than clearing the counts of many digits.
  const int digit_bits = entries.size() < 4096 ? 8 : kDigitBitsMax;
  const std::size_t digits = std::size_t{1} << digit_bits;
  std::uint64_t all = 0;
  for (const Entry& entry : entries) all |= static_cast<std::uint64_t>(entry.first);
  std::vector<Entry> sorted(entries.size());
  for (int shift = 0; shift < 64 && (all >> shift) != 0; shift += digit_bits) {
    const auto digit = [shift, digits](const Entry& entry) {
      return static_cast<std::size_t>(entry.first >> shift) & (digits - 1);
    };
    std::array<std::size_t, std::size_t{1} << kDigitBitsMax> memory;
    const std::span begin = std::span(memory).first(digits);
    std::fill(begin.begin(), begin.end(), std::size_t{0});
    for (const Entry& entry : entries) ++begin[digit(entry)];
    std::exclusive_scan(begin.begin(), begin.end(), begin.begin(), std::size_t{0});
    for (const Entry& entry : entries) sorted[begin[digit(entry)]++] = entry;
    entries.swap(sorted);
  }
}

}  // namespace

void Sketch::Insert(std::int64_t value, std::int64_t weight) {
  CHECK(value >= 0 && weight >= 1);
  if (count_ == 0) {
    reference_ = minimum_ = maximum_ = value;
    // Many sketches, such as the ones of single tenants, never grow beyond this size.
    entries_.reserve(std::min(exact_entries_, kFirstEntries));
  } else {
    minimum_ = std::min(minimum_, value);
    maximum_ = std::max(maximum_, value);
  }
  count_ += weight;
  const std::int64_t offset = value - reference_;
  sum_ += static_cast<Wide>(offset) * weight;
  sum_of_squares_ +=
      static_cast<double>(offset) * static_cast<double>(offset) * static_cast<double>(weight);
  const bool known = !entries_.empty() && entries_.back().first == value;
  if (entries_.size() == std::min(entries_.capacity(), exact_entries_) && !known && exact()) {
    // Reserving takes only address space; growing by doubling would touch twice the memory.
    entries_.size() < exact_entries_ ? entries_.reserve(exact_entries_) : MakeRoom();
  }
  if (!exact()) {
    AddToBucket(value, weight);
  } else if (!entries_.empty() && entries_.back().first == value) {
    entries_.back().second += weight;
  } else {
    entries_.emplace_back(value, weight);
    sorted_ = false;
  }
}

void Sketch::Merge(const Sketch& other) {
  CHECK(&other != this);
  if (other.count_ == 0) return;
  if (count_ == 0) reference_ = other.reference_;
  // (x - r)^2 = (x - s)^2 + 2 (s - r) (x - s) + (s - r)^2, summed over the other's values x.
  const Wide shift = static_cast<Wide>(other.reference_) - reference_;
  const double distance = static_cast<double>(shift);
  sum_of_squares_ += other.sum_of_squares_ + 2 * distance * static_cast<double>(other.sum_) +
                     distance * distance * static_cast<double>(other.count_);
  sum_ += other.sum_ + shift * other.count_;
  minimum_ = count_ == 0 ? other.minimum_ : std::min(minimum_, other.minimum_);
  maximum_ = count_ == 0 ? other.maximum_ : std::max(maximum_, other.maximum_);
  count_ += other.count_;
  if (exact() && other.exact()) {
    entries_.insert(entries_.end(), other.entries_.begin(), other.entries_.end());
    sorted_ = false;
    if (entries_.size() > exact_entries_) MakeRoom();
    return;
  }
  if (exact()) UseBuckets();
  for (const auto& [value, weight] : other.entries_) AddToBucket(value, weight);
  for (std::size_t i = 0; i < other.buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
}

double Sketch::sum() const {
  return static_cast<double>(sum_ + static_cast<Wide>(reference_) * count_);
}

double Sketch::mean() const {
  return count_ == 0 ? kUndefined : sum() / static_cast<double>(count_);
}

double Sketch::deviation() const {
  if (count_ == 0) return kUndefined;
  const double n = static_cast<double>(count_);
  const double average = static_cast<double>(sum_) / n;
  const double variance = sum_of_squares_ / n - average * average;
  return static_cast<double>(std::sqrt(std::max(variance, 0.0)));
}

double Sketch::minimum() const { return count_ == 0 ? kUndefined : static_cast<double>(minimum_); }

double Sketch::maximum() const { return count_ == 0 ? kUndefined : static_cast<double>(maximum_); }

double Sketch::Quantile(double q) const {
  if (count_ == 0) return kUndefined;
  return InterpolatedQuantile(count_, q, [this](std::int64_t rank) { return ValueAt(rank); });
}

std::int64_t Sketch::CountAtLeast(double value) const {
  std::int64_t count = 0;
  for (const auto& [entry, weight] : entries_) {
    if (static_cast<double>(entry) >= value) count += weight;
  }
  for (std::size_t i = buckets_.size(); i > 0 && MiddleOf(i - 1) >= value; --i) {
    count += buckets_[i - 1];
  }
  return count;
}

std::size_t Sketch::BucketOf(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  const int shift = std::max(0, static_cast<int>(std::bit_width(bits)) - kBits);
  return static_cast<std::size_t>(shift) * kHalf + static_cast<std::size_t>(bits >> shift);
}

double Sketch::MiddleOf(std::size_t bucket) {
  if (bucket < 2 * kHalf) return static_cast<double>(bucket);
  const std::size_t shift = bucket / kHalf - 1;
  const double low =
      std::ldexp(static_cast<double>(bucket - shift * kHalf), static_cast<int>(shift));
  return low + (std::ldexp(1.0, static_cast<int>(shift)) - 1) / 2;
}

// Joins equal entries; if that frees less than half of them, switches to buckets.
void Sketch::MakeRoom() {
  // Sorts in place, without allocation, because this happens in the middle of a run.
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.first < b.first; });
  JoinEqual();
  if (entries_.size() > exact_entries_ / 2) UseBuckets();
}

void Sketch::UseBuckets() {
  buckets_.resize(BucketOf(std::numeric_limits<std::int64_t>::max()) + 1);
  for (const auto& [value, weight] : entries_) AddToBucket(value, weight);
  std::vector<Entry>().swap(entries_);
}

void Sketch::AddToBucket(std::int64_t value, std::int64_t weight) {
  buckets_[BucketOf(value)] += weight;
}

void Sketch::SortEntries() const {
  if (sorted_) return;
  SortByValue(entries_);
  JoinEqual();
}

void Sketch::JoinEqual() const {
  std::size_t kept = 0;
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    if (entries_[i].first == entries_[kept].first) {
      entries_[kept].second += entries_[i].second;
    } else {
      entries_[++kept] = entries_[i];
    }
  }
  if (!entries_.empty()) entries_.resize(kept + 1);
  sorted_ = true;
}

double Sketch::ValueAt(std::int64_t rank) const {
  if (rank == 0) return minimum();
  if (rank == count_ - 1) return maximum();
  std::int64_t passed = 0;
  if (exact()) {
    SortEntries();
    for (const auto& [value, weight] : entries_) {
      passed += weight;
      if (rank < passed) return static_cast<double>(value);
    }
  } else {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      passed += buckets_[i];
      if (rank < passed) {
        return std::clamp(MiddleOf(i), static_cast<double>(minimum_),
                          static_cast<double>(maximum_));
      }
    }
  }
  CHECK(false);
  return kUndefined;
}

}  // namespace twin
