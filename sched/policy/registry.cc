#include "sched/policy/registry.h"

namespace twin {
namespace {

template <class Config, class Made>
std::unique_ptr<Policy> Make(const Config& config, const KvPoolConfig& kv) {
  if constexpr (std::is_constructible_v<Made, const Config&, std::int32_t>) {
    return std::make_unique<Made>(config, kv.blocks);
  } else {
    return std::make_unique<Made>(config);
  }
}

template <class... Entries>
std::unique_ptr<Policy> MakeFrom(PolicyRegistry<Entries...> /*registry*/,
                                 const PolicyConfig& config, const KvPoolConfig& kv) {
  std::unique_ptr<Policy> policy;
  const auto try_entry = [&]<class Entry>(Entry /*entry*/) {
    if (const auto* held = std::get_if<typename Entry::Config>(&config)) {
      policy = Make<typename Entry::Config, typename Entry::Policy>(*held, kv);
    }
  };
  (try_entry(Entries{}), ...);
  return policy;
}

}  // namespace

std::unique_ptr<Policy> MakePolicy(const PolicyConfig& config, const KvPoolConfig& kv) {
  return MakeFrom(Policies{}, config, kv);
}

void Validate(const PolicyConfig& config) {
  std::visit(
      [](const auto& c) {
        if constexpr (requires { c.Validate(); }) c.Validate();
      },
      config);
}

void ValidateStartUp(const PolicyConfig& config) {
  Validate(config);
  std::visit(
      [](const auto& c) {
        if constexpr (requires { c.ValidateStartUp(); }) c.ValidateStartUp();
      },
      config);
}

PolicyTraits TraitsOf(const PolicyConfig& config) {
  return std::visit([](const auto& c) { return c.Traits(); }, config);
}

PolicyConfig DefaultPolicyConfig() { return VllmV1Config{}; }

}  // namespace twin
