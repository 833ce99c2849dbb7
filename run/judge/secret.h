// The judge's secret and the draws that follow from it, which no author of a policy may foresee.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/keyed_hash.h"
#include "traces/workload.h"

namespace twin::run {

// The seeds of a run. Those of the workload are independent of each other: who finds out one from
// what a policy sees, such as arrivals, knows nothing of the others.
struct RunSeeds {
  std::uint64_t world = 0;  // errors of the cost model, delays
  WorkloadSeeds workload;
  HashKey keys;  // disguises block keys (policy_host.h)
};

// 128 bits from the system, or a number of 63 bits that a person chose. A number keeps the draws
// that it always had, whose seeds have 31 bits: it serves to repeat a verdict, and hides nothing.
class JudgeSecret {
 public:
  JudgeSecret() = default;
  // REQUIRES: number < 2^63.
  explicit JudgeSecret(std::uint64_t number) : key_{number, 0} {}

  // 128 bits of the system's random numbers. Throws std::system_error.
  static JudgeSecret Draw();
  // Reads what text() gave. Throws InputError (usage) that names `field`.
  static JudgeSecret Parse(std::string_view text, const std::string& field);

  // The number, or 32 hexadecimal digits.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool is_number() const { return key_.high == 0; }
  [[nodiscard]] std::uint64_t number() const { return key_.low; }

  // Seeds of run `round` of a cell, for the k-th policy that is judged with the secret.
  [[nodiscard]] RunSeeds OfRun(std::uint64_t submission, std::uint64_t cell,
                               std::uint64_t round) const;
  // Draws the cells of a submission.
  [[nodiscard]] std::uint64_t OfCells(std::uint64_t submission) const;
  // Draws hostile worlds: this and the numbers after it.
  [[nodiscard]] std::uint64_t OfHostileWorlds() const;

  bool operator==(const JudgeSecret&) const = default;

 private:
  HashKey key_;
};

}  // namespace twin::run
