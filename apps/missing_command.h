// Commands that this program was built without.
#pragma once

#include <string>

#include "apps/options.h"
#include "core/input_error.h"

namespace twin::apps {

// Whether tools/wheel builds this for people who have no source tree.
[[nodiscard]] bool IsWheel();

// The error for `what`, which needs a build option, such as TWIN_EXEC, that this program was built
// without. It names a build that has it.
InputError NotBuilt(const std::string& what, const std::string& option);

// Adds a command that takes any arguments and throws NotBuilt.
void AddMissingCommand(CommandParser app, const std::string& name, const std::string& option);

}  // namespace twin::apps
