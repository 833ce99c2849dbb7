#include "apps/recommend/prefill_proxy.h"

#include <fmt/format.h>

namespace twin::run {
namespace {

std::string PoolArguments(std::string_view pool, const std::vector<EngineAddress>& engines) {
  std::string hosts;
  std::string ports;
  for (const EngineAddress& engine : engines) {
    hosts += " " + engine.host;
    ports += fmt::format(" {}", engine.port);
  }
  return fmt::format("--{}-hosts{} \\\n  --{}-ports{}", pool, hosts, pool, ports);
}

}  // namespace

std::string ProxyCommand(const PrefillProxy& proxy) {
  return fmt::format(
      "[ -e toy_proxy_server.py ] || curl -fsSLO "
      "https://raw.githubusercontent.com/vllm-project/vllm/v{}/"
      "tests/v1/kv_connector/nixl_integration/toy_proxy_server.py\n"
      "exec python3 toy_proxy_server.py --host 0.0.0.0 --port {} \\\n  {} \\\n  {}\n",
      proxy.release, proxy.port, PoolArguments("prefiller", proxy.prefill),
      PoolArguments("decoder", proxy.decode));
}

std::string ProxyManifest(const PrefillProxy& proxy, std::string_view image) {
  std::string command;
  for (const char c : ProxyCommand(proxy)) {
    command += c;
    if (c == '\n') command.append(14, ' ');
  }
  command.resize(command.size() - 14);
  return fmt::format(R"(---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: proxy
spec:
  selector:
    matchLabels: {{ app: proxy }}
  template:
    metadata:
      labels: {{ app: proxy }}
    spec:
      containers:
        - name: proxy
          image: {image}
          workingDir: /tmp
          command: ["/bin/sh", "-c"]
          args:
            - |
              {command}          ports: [{{ containerPort: {port} }}]
          readinessProbe:
            httpGet: {{ path: /healthcheck, port: {port} }}
---
apiVersion: v1
kind: Service
metadata:
  name: proxy
spec:
  selector: {{ app: proxy }}
  ports: [{{ port: {port} }}]
)",
                     fmt::arg("image", image), fmt::arg("command", command),
                     fmt::arg("port", proxy.port));
}

}  // namespace twin::run
