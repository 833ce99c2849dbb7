// Layouts of replicas whose feed-forward networks (FFNs) have devices of their own.
//
// Idea: attention groups, devices of the pool and micro-batches have too many combinations to
// simulate each with all other settings. The times of steps rank them: for each pool and number of
// micro-batches, a search over the attention groups starts at the optimum of ffn_pool_optimum.h and
// climbs by the cost model itself. The best few, and one group less and more than the first, are
// then simulated as all other layouts are.
//
// Easy to get wrong: the closed form assumes times that grow linearly, and a batch that does not
// depend on the time of a token. It says where to start and decides nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "apps/recommend/candidate.h"
#include "apps/recommend/candidate_settings.h"
#include "apps/recommend/longest_request.h"
#include "config/recommend_config.h"

namespace twin::run {

constexpr std::size_t kFfnPoolLayoutsKept = 4;  // beside the neighbours of the first

// Values that the layouts may have; an empty list leaves them open.
struct FfnPoolChoices {
  std::vector<std::int32_t> tensor_parallel;
  std::vector<std::int32_t> replicas;  // empty: as many as the devices allow
  std::vector<std::int32_t> attention_groups;
  std::vector<std::int32_t> ffn_devices;  // those that can divide the model and hold its weights
  std::vector<std::int32_t> micro_batches;
};

// Replicas that fit on the offered devices; 0: none. REQUIRES: hardware.ffn, layout.ffn.
std::int32_t ReplicasThatFit(const OfferedHardwareConfig& hardware, const Layout& layout);

// Throws InputError if the layout cannot run.
using LayoutMaker = std::function<Candidate(const Layout&)>;

// The layouts to simulate, the best by the times of steps first. Of each value that the request
// lists, at least its best layout. If none can run: one of them, so that its candidate says why.
// REQUIRES: no list of `choices` but replicas and attention_groups is empty, hardware.ffn.
std::vector<Layout> FfnPoolLayouts(const RecommendConfig& request,
                                   const OfferedHardwareConfig& hardware,
                                   const FfnPoolChoices& choices, const LongestRequest& lengths,
                                   const LayoutMaker& make);

}  // namespace twin::run
