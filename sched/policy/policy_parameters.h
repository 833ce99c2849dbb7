// The parameters that an experiment gives a policy from outside the registry
// (policy.own.parameters).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"

namespace twin {

struct PolicyParameter {
  std::string name;
  std::string value;  // as written

  bool operator==(const PolicyParameter&) const = default;
};

// Each function returns the value that was given for `name`, or `otherwise`, and remembers that the
// policy has such a parameter. Throws InputError (usage) if the value is none of the kind.
class PolicyParameters {
 public:
  PolicyParameters() = default;
  explicit PolicyParameters(std::vector<PolicyParameter> given) : given_(std::move(given)) {}

  [[nodiscard]] std::int32_t Integer(std::string_view name, std::int32_t otherwise) const;
  [[nodiscard]] double Number(std::string_view name, double otherwise) const;
  [[nodiscard]] Duration Seconds(std::string_view name, Duration otherwise) const;
  [[nodiscard]] bool Flag(std::string_view name, bool otherwise) const;  // true or false
  [[nodiscard]] std::string Text(std::string_view name, std::string_view otherwise) const;

  // Throws InputError (usage) if a parameter was given that the policy has not asked for.
  void RequireAllKnown() const;

 private:
  [[nodiscard]] const std::string* Find(std::string_view name) const;

  std::vector<PolicyParameter> given_;
  mutable std::vector<std::string> known_;  // that were asked for
};

}  // namespace twin
