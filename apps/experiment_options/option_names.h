// Names of models, devices and servers as people write them on a command line.
#pragma once

#include <string>
#include <string_view>

namespace twin::apps {

struct NamedPart {
  std::string name;  // for the experiment
  std::string note;  // what the program decided about the name; empty if nothing was open
};

// Each throws InputError (usage) at `where` with the nearest names for a name that is unknown.

// A data sheet by its name, or by that of a family of boards with one usual board ("h100"), or by
// the path of a file (with a '/').
NamedPart NameDevice(const std::string& where, const std::string& text);

// A preset, a model on huggingface.co whose shape a preset has, a folder or a config.json.
NamedPart NameModel(const std::string& where, const std::string& text);

// A server and its version, or a server alone, which means the newest release that is known.
NamedPart NameServer(const std::string& where, const std::string& text);

// "vLLM 0.33.0" for system.server and system.server_asked of an experiment.
std::string ServerTitle(std::string_view server, std::string_view asked);

}  // namespace twin::apps
