// The proxy in front of engines that only prefill and engines that only decode.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twin::run {

struct EngineAddress {
  std::string host;
  int port = 0;
};

struct PrefillProxy {
  std::string release = {};  // of vLLM, such as "0.33.0"
  std::vector<EngineAddress> prefill = {};
  std::vector<EngineAddress> decode = {};
  int port = 0;  // where the proxy listens
};

// Lines of a shell that fetch the proxy of vLLM's NIXL connector from the sources of the release,
// unless it is there, and become it. Its modules come with vLLM. It takes the engines of each pool
// in turn, and lets one of each compute every request.
std::string ProxyCommand(const PrefillProxy& proxy);

// A Deployment and a Service of Kubernetes. The image is that of the engines.
std::string ProxyManifest(const PrefillProxy& proxy, std::string_view image);

}  // namespace twin::run
