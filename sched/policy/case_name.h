// The names and parameters under which case files and --policy ask for a policy.
#pragma once

#include <span>
#include <string_view>

namespace twin {

// A parameter of the original system that has another name in the policy's config.
struct RenamedParameter {
  std::string_view from;
  std::string_view to;  // empty: ignored, because the parameter follows from other parameters
  // JSON; the only value with which a case means this entry. Empty: any value.
  std::string_view only = {};
};

struct CaseName {
  std::string_view name;
  std::string_view parameters = "{}";  // JSON, set before the parameters of the case
  std::span<const RenamedParameter> renamed = {};
};

}  // namespace twin
