#include "apps/missing_command.h"

namespace twin::apps {

InputError NotBuilt(const std::string& what, const std::string& option) {
  return InputError(InputError::Kind::kUsage, what,
                    "is not in this program, which was built with -D" + option +
                        "=OFF; allowed: a build of everything (cmake --preset release && "
                        "cmake --build build/release --target twinserve)");
}

void AddMissingCommand(CommandParser app, const std::string& name, const std::string& option) {
  CommandParser command =
      app.AddCommand(name, "Not in this program: built with -D" + option + "=OFF");
  command.AllowAny();
  command.OnCall([name, option] { throw NotBuilt(name, option); });
}

}  // namespace twin::apps
