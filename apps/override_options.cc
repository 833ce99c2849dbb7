#include "apps/override_options.h"

#include <fmt/format.h>

namespace twin::apps {

OverrideOptions AddOverrideOptions(CLI::App& command, std::vector<std::string>& changes) {
  const auto add = [&](const char* name, const char* prefix, const char* type, const char* help) {
    return command
        .add_option_function<std::string>(
            name,
            [&changes, prefix](const std::string& text) {
              changes.push_back(fmt::format("{}{}", prefix, text));
            },
            help)
        ->type_name(type)
        // Called at each occurrence, so that the order of --set and --unset is kept.
        ->trigger_on_parse()
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  };
  return {.set = add("--set", "", "PATH=VALUE",
                     "Change a field of the experiment; repeatable, applied in order"),
          .unset = add("--unset", "!", "PATH",
                       "Clear a field of the experiment, so that its default applies; repeatable, "
                       "applied in order with --set")};
}

}  // namespace twin::apps
