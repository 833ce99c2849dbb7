// Names of servers as people, recorded runs and container registries write them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace twin {

// Major, minor, patch; parts that are not written are 0.
using ServerVersion = std::array<int, 3>;

struct ServerName {
  std::string family;  // vllm, sglang, tgi, trtllm, or another in small letters
  std::optional<ServerVersion> version;
  bool released = true;  // no release candidate, development or post-release build
};

// "vLLM 0.23.0", "vllm==0.15.1", "vllm-v0.15.1", "vllm/vllm-openai:v0.15.1+cu128" and
// "TensorRT-LLM 1.0.0rc6": capitals, separators, the v of a version, the path of an image and the
// tag of a build do not count. Nothing if what follows the family is no version.
std::optional<ServerName> ParseServerName(std::string_view text);

}  // namespace twin
