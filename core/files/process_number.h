// Names that end in the number of the process that made them.
#pragma once

#include <optional>
#include <string_view>

namespace twin {

// The NUMBER of a name that is `stem` and a number from 1; nothing for other names.
std::optional<int> NumberBehind(std::string_view stem, std::string_view name);

// On this machine, in this container.
bool ProcessExists(int number);

}  // namespace twin
