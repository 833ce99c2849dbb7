// How one replica of a model is split over devices, and how the devices of a stage are linked.
#pragma once

#include <cstdint>
#include <vector>

namespace twin {

// The links between the devices of a stage (sim/cost/link_topology.h has the times).
enum class LinkTopology : std::uint8_t {
  kRing,
  kClique,      // a link between each two devices
  kCliqueGrid,  // k x k devices; rows and columns are cliques
  kDragonfly,   // nodes are cliques, with a link between each two nodes
};

// How a stage's devices divide the KV cache of a layer.
enum class KvSplit : std::uint8_t {
  kHeads,    // each has some of the heads, of all tokens
  kContext,  // each has all heads, of some of the tokens
};

// Equal stages that follow each other. A first stage without layers holds the embedding alone, a
// last one the output head alone.
struct StageGroup {
  std::int32_t count = 1;
  std::int32_t devices = 1;  // of one stage
  std::int32_t layers = 0;   // of one stage

  bool operator==(const StageGroup&) const = default;
};

// `pipeline` stages of `tensor` devices each, or, if `stages` is not empty, these. Lists of stages,
// topologies other than a ring and a split by context are for dataflow machines
// (core/dataflow_spec.h) alone. REQUIRES: with `stages`, `pipeline` is their number.
struct Parallelism {
  std::int32_t tensor = 1;
  std::int32_t pipeline = 1;
  std::vector<StageGroup> stages = {};
  LinkTopology topology = LinkTopology::kRing;
  KvSplit kv_split = KvSplit::kHeads;

  // Whether its stages are equal rings of devices that divide heads.
  [[nodiscard]] bool is_uniform() const {
    return stages.empty() && topology == LinkTopology::kRing && kv_split == KvSplit::kHeads;
  }
  // The group of a stage; nullptr without a list. REQUIRES: 0 <= stage < pipeline.
  [[nodiscard]] const StageGroup* StageGroupOf(std::int32_t stage) const {
    for (const StageGroup& group : stages) {
      if (stage < group.count) return &group;
      stage -= group.count;
    }
    return nullptr;
  }
  [[nodiscard]] std::int32_t StageDevices(std::int32_t stage) const {
    const StageGroup* const group = StageGroupOf(stage);
    return group == nullptr ? tensor : group->devices;
  }
  [[nodiscard]] std::int32_t devices() const {
    if (stages.empty()) return tensor * pipeline;
    std::int32_t sum = 0;
    for (const StageGroup& group : stages) sum += group.count * group.devices;
    return sum;
  }
  bool operator==(const Parallelism&) const = default;
};

}  // namespace twin
