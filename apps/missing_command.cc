#include "apps/missing_command.h"

namespace twin::apps {

bool IsWheel() {
#ifdef TWIN_WHEEL
  return true;
#else
  return false;
#endif
}

InputError NotBuilt(const std::string& what, const std::string& option) {
  if (IsWheel()) {
    return InputError(InputError::Kind::kUsage, what,
                      "is not in the wheel, which simulates; allowed: a build from source "
                      "(README.md, \"Build and run\")");
  }
  return InputError(InputError::Kind::kUsage, what,
                    "is not in this program, which was built with -D" + option +
                        "=OFF; allowed: a build of everything (cmake --preset release && "
                        "cmake --build build/release --target twinserve)");
}

void AddMissingCommand(CommandParser app, const std::string& name, const std::string& option) {
  CommandParser command =
      app.AddCommand(name, IsWheel() ? "Not in the wheel: needs a build from source"
                                     : "Not in this program: built with -D" + option + "=OFF");
  command.AllowAny();
  command.OnCall([name, option] { throw NotBuilt(name, option); });
}

}  // namespace twin::apps
