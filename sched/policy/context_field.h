// The field of a policy's parameters that limits the tokens of one request.
#pragma once

#include <cstdint>
#include <string_view>

namespace twin {

// 0 in the field stands for the positions of the model.
template <class Config>
struct ContextField {
  std::string_view name;
  std::int32_t Config::*tokens;
};
template <class Config>
ContextField(const char*, std::int32_t Config::*) -> ContextField<Config>;

}  // namespace twin
