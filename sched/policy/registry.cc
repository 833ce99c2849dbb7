#include "sched/policy/registry.h"

namespace twin {
namespace {

struct Maker {
  std::int32_t blocks;

  using Made = std::unique_ptr<Policy>;
  Made operator()(const StaticConfig& c) const { return std::make_unique<StaticPolicy>(c); }
  Made operator()(const OrcaConfig& c) const { return std::make_unique<OrcaPolicy>(c); }
  Made operator()(const VllmV0Config& c) const { return std::make_unique<VllmV0Policy>(c, blocks); }
  Made operator()(const VllmV1Config& c) const { return std::make_unique<VllmV1Policy>(c, blocks); }
  Made operator()(const SarathiConfig& c) const {
    return std::make_unique<SarathiPolicy>(c, blocks);
  }
  Made operator()(const SplitFuseConfig& c) const { return std::make_unique<SplitFusePolicy>(c); }
};

}  // namespace

std::unique_ptr<Policy> MakePolicy(const PolicyConfig& config, const KvPoolConfig& kv) {
  return std::visit(Maker{kv.blocks}, config);
}

ReleaseOrder ReleaseOrderOf(const PolicyConfig& config) {
  const auto* v1 = std::get_if<VllmV1Config>(&config);
  const bool keyless_first = v1 != nullptr && v1->release == VllmV1Release::k0_33_0;
  return keyless_first ? ReleaseOrder::kKeylessFront : ReleaseOrder::kBack;
}

}  // namespace twin
