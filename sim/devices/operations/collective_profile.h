// Measurements of the communication between devices of one kind.
#pragma once

#include <cstdint>
#include <vector>

namespace twin::sim {

enum class Collective : std::uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSend };

// The kernels' library: NCCL, or the all-reduce that a serving engine captures in its graphs, which
// exchanges small messages through peer memory.
enum class CollectiveImplementation : std::uint8_t { kNccl, kVllm, kSglang, kTrtllm };

// Measured times over the payload of one rank, ascending. They contain every switch of protocol.
struct CollectiveCurve {
  Collective kind{};
  CollectiveImplementation implementation{};
  std::int32_t ranks = 2;
  double spread = 0.1;  // standard deviation of the logarithm
  std::vector<double> bytes;
  std::vector<double> microseconds;

  bool operator==(const CollectiveCurve&) const = default;
};

// Empty: the closed form of CollectiveModel with the links of the data sheet.
struct CollectiveProfile {
  std::vector<CollectiveCurve> curves;

  bool operator==(const CollectiveProfile&) const = default;
};

// Throws InputError (usage) "curves[1]: ..." for the first curve whose axes do not match or ascend.
void Validate(const CollectiveProfile& profile);

}  // namespace twin::sim
