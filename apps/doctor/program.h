// Version and build of this program.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace twin::apps {

// Version, commit, build type and compiler, with a line end.
std::string ProgramLine();
nlohmann::ordered_json ProgramJson();

}  // namespace twin::apps
