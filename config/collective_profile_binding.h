// Which member of a CollectiveProfile holds which field of its message (field_binding.h).
#pragma once

#include "config/field_binding.h"
#include "sim/devices/operations/collective_profile.h"

namespace twin {

template <class Archive>
void Bind(Archive& fields, sim::CollectiveCurve& curve) {
  using enum sim::Collective;
  using enum sim::CollectiveImplementation;
  fields.template Enum<sim::Collective>("kind", curve.kind,
                                        {{"all_reduce", kAllReduce},
                                         {"all_gather", kAllGather},
                                         {"reduce_scatter", kReduceScatter},
                                         {"all_to_all", kAllToAll},
                                         {"send", kSend}});
  fields.template Enum<sim::CollectiveImplementation>(
      "implementation", curve.implementation,
      {{"nccl", kNccl}, {"vllm", kVllm}, {"sglang", kSglang}, {"trtllm", kTrtllm}});
  fields.Value("ranks", curve.ranks);
  fields.Value("spread", curve.spread);
  fields.Values("bytes", curve.bytes);
  fields.Values("microseconds", curve.microseconds);
}

template <class Archive>
void Bind(Archive& fields, sim::CollectiveProfile& profile) {
  fields.List("curves", profile.curves);
}

}  // namespace twin
