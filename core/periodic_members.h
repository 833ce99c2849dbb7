// Members of a group that come due again and again, all with one period, each at its own ticks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/check.h"

namespace twin {

// Member i is due at the ticks firsts[i] + k * period, k >= 0. Members with the same remainder
// modulo the period form a list, so that a tick costs only the members that are due. Allocates only
// while it grows.
class PeriodicMembers {
 public:
  // Replaces all members. REQUIRES: period >= 1, firsts >= 0. Cost: linear in old and new members.
  void Assign(std::int32_t period, std::span<const std::int32_t> firsts) {
    CHECK(period >= 1);
    for (const std::uint32_t remainder : remainders_) heads_[remainder] = kNone;
    if (heads_.size() < static_cast<std::size_t>(period)) {
      heads_.resize(static_cast<std::size_t>(period), kNone);
    }
    period_ = static_cast<std::uint32_t>(period);
    mask_ = std::has_single_bit(period_) ? period_ - 1 : 0;
    remainders_.resize(firsts.size());
    nexts_.resize(firsts.size());
    // Starts from the last member, so that the lists ascend.
    for (std::size_t i = firsts.size(); i-- > 0;) {
      remainders_[i] = Remainder(firsts[i]);
      std::uint32_t& head = heads_[remainders_[i]];
      nexts_[i] = head;
      head = static_cast<std::uint32_t>(i);
    }
  }

  // Calls visit(i) for the members that are due, in rising order of i. A member whose first tick
  // lies a whole number of periods ahead is also visited. REQUIRES: tick >= 0, and an Assign.
  template <class Visit>
  void ForEachDue(std::int32_t tick, Visit visit) const {
    std::uint32_t i = heads_[Remainder(tick)];
    for (; i != kNone; i = nexts_[i]) visit(std::size_t{i});
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // Divisions take most of the time of Assign; nearly all periods are powers of two.
  [[nodiscard]] std::uint32_t Remainder(std::int32_t tick) const {
    const auto number = static_cast<std::uint32_t>(tick);
    return mask_ > 0 ? number & mask_ : number % period_;
  }

  std::uint32_t period_ = 1;
  std::uint32_t mask_ = 0;                 // period - 1 if the period is a power of two above 1
  std::vector<std::uint32_t> heads_;       // first member of each list, by remainder
  std::vector<std::uint32_t> nexts_;       // next member in the list, by member
  std::vector<std::uint32_t> remainders_;  // by member
};

}  // namespace twin
