#include "sched/policy/registry.h"

#include <fmt/format.h>

#include <type_traits>

#include "sched/policy/field_check.h"
#include "sched/policy/system_of_policy.h"

namespace twin {
namespace {

template <class Config, class Made>
std::unique_ptr<Policy> Make(const Config& config, const KvPoolConfig& kv) {
  if constexpr (std::is_constructible_v<Made, const Config&, std::int32_t>) {
    return std::make_unique<Made>(config, kv.blocks);
  } else if constexpr (std::is_constructible_v<Made, const Config&, const KvPoolConfig&>) {
    return std::make_unique<Made>(config, kv);
  } else {
    return std::make_unique<Made>(config);
  }
}

}  // namespace

PolicyConfig PolicyFamily::Default() { return DefaultPolicyConfigs().front(); }

std::vector<std::string_view> PolicyNames() {
  std::vector<std::string_view> names;
  ForEachPolicy([&]<class Entry>(Entry /*entry*/) { names.push_back(Entry::Config::kName); });
  return names;
}

std::vector<PolicyConfig> DefaultPolicyConfigs() {
  std::vector<PolicyConfig> configs;
  ForEachPolicy([&]<class Entry>(Entry /*entry*/) { configs.push_back(typename Entry::Config{}); });
  return configs;
}

std::vector<PolicyCase> PolicyCases() {
  std::vector<PolicyCase> cases;
  ForEachPolicy([&]<class Entry>(Entry /*entry*/) {
    for (const CaseName& name : Entry::Config::CaseNames()) {
      cases.push_back({Entry::Config::kName, name});
    }
  });
  return cases;
}

std::unique_ptr<Policy> MakePolicy(const PolicyConfig& config, const KvPoolConfig& kv) {
  Validate(config);
  std::unique_ptr<Policy> policy;
  ForEachPolicy([&]<class Entry>(Entry /*entry*/) {
    if (const auto* const held = config.If<typename Entry::Config>()) {
      policy = Make<typename Entry::Config, typename Entry::Policy>(*held, kv);
    }
  });
  return policy;
}

void Validate(const PolicyConfig& config) {
  VisitPolicy(config, [](const auto& c) { c.Validate(); });
}

void ValidateStartUp(const PolicyConfig& config) {
  Validate(config);
  VisitPolicy(config, [](const auto& c) {
    if constexpr (requires { c.ValidateStartUp(); }) c.ValidateStartUp();
  });
}

void ResolveContext(PolicyConfig& config, std::int32_t model_tokens) {
  VisitPolicy(config, [model_tokens](auto& c) {
    std::int32_t& tokens = c.*c.kContextField.tokens;
    if (tokens == 0) tokens = model_tokens;
    if constexpr (requires { c.ResolveBudget(); }) c.ResolveBudget();
  });
}

void ResolveWindow(PolicyConfig& config, std::int32_t model_window) {
  VisitPolicy(config, [model_window](auto& c) {
    if constexpr (requires { c.ResolveWindow(model_window); }) c.ResolveWindow(model_window);
  });
}

void LimitBySystem(PolicyConfig& config, const SystemOfPolicy& system) {
  VisitPolicy(config, [&system](auto& c) {
    if constexpr (requires { c.LimitBySystem(system); }) c.LimitBySystem(system);
  });
}

void RequireSystem(const PolicyConfig& config, const SystemOfPolicy& system) {
  VisitPolicy(config, [&system](const auto& c) {
    if constexpr (requires { c.RequireSystem(system); }) c.RequireSystem(system);
  });
}

void ValidateContext(const PolicyConfig& config, std::int32_t model_tokens) {
  VisitPolicy(config, [model_tokens](const auto& c) {
    RequireWithinModel(fmt::format("{}.{}", c.kName, c.kContextField.name),
                       c.*c.kContextField.tokens, model_tokens);
  });
}

bool SetSpeculation(PolicyConfig& config, const SpeculationRules& rules) {
  return VisitPolicy(config, [&rules](auto& c) {
    if constexpr (requires { c.speculation; }) {
      c.speculation = rules;
      return true;
    } else {
      return false;
    }
  });
}

PolicyTraits TraitsOf(const PolicyConfig& config) {
  return VisitPolicy(config, [](const auto& c) { return c.Traits(); });
}

PolicyConfig DefaultPolicyConfig() { return VllmV1Config{}; }

}  // namespace twin
