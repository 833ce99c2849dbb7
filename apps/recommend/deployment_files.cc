#include "apps/recommend/deployment_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <string_view>

#include "apps/recommend/prefill_proxy.h"
#include "config/servers/launch_command.h"
#include "config/servers/servers.h"
#include "core/files/output_file.h"
#include "core/number_text.h"

namespace twin::run {
namespace {

constexpr int kPort = 8000;
constexpr int kBenchSeconds = 60;  // of sending, at the load
constexpr double kWidestRange = 0.5;
constexpr int kSideChannelPort = 5600;
// Other machines reach an engine by the address of its pod.
constexpr const char* kSideChannelHost = R"(          env:
            - name: VLLM_NIXL_SIDE_CHANNEL_HOST
              valueFrom: { fieldRef: { fieldPath: status.podIP } }
)";
constexpr std::size_t kDeploymentsMax = 3;

// The parts of a server's name, as in "vllm-0.33.0".
std::string_view SystemOf(std::string_view server) { return server.substr(0, server.find('-')); }
std::string_view ReleaseOf(std::string_view server) { return server.substr(server.find('-') + 1); }

// The command with its last part in place of the shell, which then gets the signals.
std::string ExecText(std::string command) {
  constexpr std::string_view kAnd = "&& ";
  const std::size_t last = command.rfind(kAnd);
  command.insert(last == std::string::npos ? 0 : last + kAnd.size(), "exec ");
  return command;
}

// The text with every line but the first moved to the right.
std::string Indented(std::string_view text, int columns) {
  std::string result;
  for (const char c : text) {
    result += c;
    if (c == '\n') result.append(static_cast<std::size_t>(columns), ' ');
  }
  return result;
}

// Makes the files of an answer.
class DeploymentWriter {
 public:
  DeploymentWriter(const Recommendation& answer, const RecommendConfig& request, std::size_t index)
      : answer_(answer),
        configuration_(answer.configurations.at(index)),
        choice_(configuration_.candidate.choice),
        hardware_(request.hardware[choice_.hardware].name) {}

  [[nodiscard]] std::vector<DeploymentFile> Files() const {
    std::vector<DeploymentFile> files = {
        {"server.sh", Server()},
        {"bench.sh", Bench()},
        {"prediction.textproto", WriteResolved(configuration_.experiment)},
        {"README.md", Readme()}};
    if (splits()) files.push_back({"proxy.sh", Proxy()});
    if (replicas() > 1 && !splits()) files.push_back({"nginx.conf", Nginx(LocalEngines())});
    files.push_back({"kubernetes.yaml", Kubernetes()});
    return files;
  }

 private:
  [[nodiscard]] std::int32_t replicas() const { return choice_.layout.replicas; }
  [[nodiscard]] std::int32_t devices() const { return choice_.layout.parallelism.devices(); }
  [[nodiscard]] bool splits() const { return choice_.layout.prefill_replicas > 0; }

  [[nodiscard]] std::int32_t prefill_replicas() const { return choice_.layout.prefill_replicas; }

  [[nodiscard]] std::string Server() const {
    return fmt::format(
        "#!/bin/sh\n"
        "# Starts one of {} engines, on {} of {}: PORT and CUDA_VISIBLE_DEVICES say where.\n"
        "set -eu\n"
        "{}{} --port \"${{PORT:-{}}}\"\n",
        replicas(), devices() == 1 ? "one device" : fmt::format("{} devices", devices()), hardware_,
        splits() ? SideChannel() : "", ExecText(configuration_.command), kPort);
  }

  // The port by which engines of one machine tell each other where keys and values lie. Some
  // releases take one port per rank, from this one on.
  [[nodiscard]] std::string SideChannel() const {
    return fmt::format("export VLLM_NIXL_SIDE_CHANNEL_PORT=$(({} + (${{PORT:-{}}} - {}) * {}))\n",
                       kSideChannelPort, kPort, kPort, devices());
  }

  // The first engines prefill.
  template <class AddressOf>
  [[nodiscard]] PrefillProxy ProxyOf(AddressOf&& address_of) const {
    PrefillProxy proxy{.release = std::string(ReleaseOf(choice_.server)), .port = kPort + 80};
    for (std::int32_t i = 0; i < replicas(); ++i) {
      (i < prefill_replicas() ? proxy.prefill : proxy.decode).push_back(address_of(i));
    }
    return proxy;
  }

  [[nodiscard]] std::string Proxy() const {
    return fmt::format(
        "#!/bin/sh\n"
        "# Lets an engine prefill each request and another one decode it; listens on port {}.\n"
        "set -eu\n{}",
        kPort + 80, ProxyCommand(ProxyOf([](std::int32_t i) {
          return EngineAddress{"127.0.0.1", kPort + i};
        })));
  }

  // How requests are sent: at a rate, or by users who wait.
  [[nodiscard]] std::string LoadArguments() const {
    if (answer_.load_unit == "users") {
      return fmt::format("--request-rate inf --max-concurrency {}", std::llround(answer_.load));
    }
    return fmt::format("--request-rate {}", RoundedText(answer_.load, 6));
  }

  [[nodiscard]] std::int64_t BenchRequests() const {
    const double sent =
        answer_.load_unit == "users" ? 10 * answer_.load : kBenchSeconds * answer_.load;
    return std::max<std::int64_t>(200, std::llround(sent));
  }

  // Value R of --random-range-ratio: lengths are even from (1 - R) to (1 + R) times the mean. At
  // most what the load itself has, and what the server takes.
  [[nodiscard]] double RangeRatio() const {
    const WorkloadConfig& load = configuration_.experiment.workload;
    const bool draws_shape = !load.trace && load.preset == WorkloadPreset::kNone;
    const auto width = [&](const IntegerDistribution& lengths) {
      using Kind = IntegerDistribution::Kind;
      if (!draws_shape) return kWidestRange;
      if (lengths.kind == Kind::kFixed) return 0.0;
      if (lengths.kind != Kind::kUniform) return kWidestRange;
      return std::min(kWidestRange,
                      double{1} * (lengths.max - lengths.min) / (lengths.max + lengths.min));
    };
    const double longest = configuration_.candidate.deployment.context_tokens_max;
    const double mean =
        std::round(answer_.mean_prompt_tokens) + std::round(answer_.mean_output_tokens);
    const double ratio = std::min({std::max(width(load.shape.prompt), width(load.shape.output)),
                                   std::max(longest / mean - 1, 0.0)});
    return std::floor(100 * ratio) / 100;
  }

  [[nodiscard]] std::string Bench() const {
    const double ratio = RangeRatio();
    return fmt::format(
        "#!/bin/sh\n"
        "# Measures the engines at the load of the request, then says by how much the prediction "
        "is\n"
        "# off, and why. {}\n"
        "# REQUESTS is the number of requests.\n"
        "set -eu\n"
        "vllm bench serve --backend openai --base-url \"${{URL:-http://localhost:{}}}\" --model {} "
        "\\\n"
        "  --dataset-name random --random-input-len {} --random-output-len {} --random-range-ratio "
        "{} \\\n"
        "  --num-prompts \"${{REQUESTS:-{}}}\" {} --ignore-eos \\\n"
        "  --save-result --save-detailed --result-filename bench.json \\\n"
        "  --metadata {}_version={} gpu={} tp={}\n"
        "twinserve validate --measured bench.json --system prediction.textproto --out "
        "bench.measured\n",
        ratio == 0 ? "Lengths are those of the request."
                   : "Lengths are even about the means of the workload;\n# the comparison "
                     "simulates the lengths and times that were sent.",
        replicas() > 1 ? kPort + 80 : kPort, QuotedForShell(configuration_.candidate.checkpoint),
        std::llround(answer_.mean_prompt_tokens), std::llround(answer_.mean_output_tokens),
        ShortestText(ratio), BenchRequests(), LoadArguments(), SystemOf(choice_.server),
        ReleaseOf(choice_.server), hardware_, choice_.layout.parallelism.tensor);
  }

  [[nodiscard]] std::vector<std::string> LocalEngines() const {
    std::vector<std::string> engines;
    for (std::int32_t i = 0; i < replicas(); ++i) {
      engines.push_back(fmt::format("127.0.0.1:{}", kPort + i));
    }
    return engines;
  }

  // A load balancer that sends each request to the engine with the fewest, as it was simulated.
  [[nodiscard]] std::string Nginx(const std::vector<std::string>& engines) const {
    std::string upstream;
    for (const std::string& engine : engines) upstream += fmt::format("    server {};\n", engine);
    return fmt::format(
        "events {{ worker_connections 16384; }}\n"
        "http {{\n"
        "  upstream engines {{\n"
        "    least_conn;\n"
        "{}"
        "  }}\n"
        "  server {{\n"
        "    listen {};\n"
        "    location / {{\n"
        "      proxy_pass http://engines;\n"
        "      proxy_buffering off;\n"
        "      proxy_read_timeout 1h;\n"
        "    }}\n"
        "  }}\n"
        "}}\n",
        upstream, kPort + 80);
  }

  // Gives each engine a name.
  [[nodiscard]] static std::string Names() {
    return fmt::format(R"(apiVersion: v1
kind: Service
metadata:
  name: engines
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{ app: engine }}
  ports: [{{ port: {} }}]
)",
                       kPort);
  }

  [[nodiscard]] std::string Image() const {
    const twin::Server& server = *FindServer(choice_.server)->server;
    return fmt::format(fmt::runtime(server.image), ReleaseOf(choice_.server));
  }

  // Engines NAME-0, NAME-1, ... of one pool.
  [[nodiscard]] std::string Engines(std::string_view name, std::int32_t count) const {
    const twin::Server& server = *FindServer(choice_.server)->server;
    return fmt::format(
        R"(---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {name}
spec:
  serviceName: engines
  podManagementPolicy: Parallel
  replicas: {replicas}
  selector:
    matchLabels: {{ app: engine{role} }}
  template:
    metadata:
      labels: {{ app: engine{role} }}
    spec:
      containers:
        - name: server
          image: {image}
          command: ["/bin/sh", "-c"]
          args:
            - |
              {command} {listen} --port {port}
          ports: [{{ containerPort: {port} }}]
{environment}          resources:
            limits: {{ nvidia.com/gpu: {devices} }}
          readinessProbe:
            httpGet: {{ path: /health, port: {port} }}
            periodSeconds: 5
            failureThreshold: 360
          volumeMounts: [{{ name: shm, mountPath: /dev/shm }}]
      volumes:
        - name: shm
          emptyDir: {{ medium: Memory, sizeLimit: 8Gi }}
)",
        fmt::arg("port", kPort), fmt::arg("name", name), fmt::arg("replicas", count),
        fmt::arg("role", splits() ? fmt::format(", role: {}", name) : ""),
        fmt::arg("image", Image()), fmt::arg("command", ExecText(configuration_.command)),
        fmt::arg("listen", server.listen), fmt::arg("devices", devices()),
        fmt::arg("environment", splits() ? kSideChannelHost : ""));
  }

  [[nodiscard]] std::string Pools() const {
    const auto address_of = [this](std::int32_t i) {
      const bool prefills = i < prefill_replicas();
      return EngineAddress{fmt::format("{}-{}.engines", prefills ? "prefill" : "decode",
                                       prefills ? i : i - prefill_replicas()),
                           kPort};
    };
    return Names() + Engines("prefill", prefill_replicas()) +
           Engines("decode", replicas() - prefill_replicas()) +
           ProxyManifest(ProxyOf(address_of), Image());
  }

  [[nodiscard]] std::string LoadBalancer() const {
    std::vector<std::string> engines;
    for (std::int32_t i = 0; i < replicas(); ++i) {
      engines.push_back(fmt::format("engine-{}.engines:{}", i, kPort));
    }
    return fmt::format(R"(---
apiVersion: v1
kind: ConfigMap
metadata:
  name: balancer
data:
  nginx.conf: |
    {config}---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: balancer
spec:
  selector:
    matchLabels: {{ app: balancer }}
  template:
    metadata:
      labels: {{ app: balancer }}
    spec:
      containers:
        - name: nginx
          image: nginx:1.28
          volumeMounts: [{{ name: config, mountPath: /etc/nginx/nginx.conf, subPath: nginx.conf }}]
      volumes:
        - name: config
          configMap: {{ name: balancer }}
---
apiVersion: v1
kind: Service
metadata:
  name: balancer
spec:
  selector: {{ app: balancer }}
  ports: [{{ port: {port} }}]
)",
                       fmt::arg("config", BalancerConfig(engines)), fmt::arg("port", kPort + 80));
  }

  // Indented for its place; nginx starts before the names of all engines are known.
  [[nodiscard]] std::string BalancerConfig(const std::vector<std::string>& engines) const {
    std::string text = Indented(Nginx(engines), 4);
    text.resize(text.size() - 4);
    return text;
  }

  [[nodiscard]] std::string Kubernetes() const {
    if (splits()) return Pools();
    const std::string engines = Names() + Engines("engine", replicas());
    return replicas() > 1 ? engines + LoadBalancer() : engines;
  }

  [[nodiscard]] std::string Start() const {
    if (splits()) {
      return fmt::format(
          "Start `server.sh` {} times, with ports from {} on and devices of its own each, and\n"
          "`proxy.sh`, which listens on port {} and lets the first {} prefill; or `kubectl apply "
          "-f\n"
          "kubernetes.yaml`. The proxy takes the engines of either kind in turn; the prediction\n"
          "sends each request to those with the fewest.\n",
          replicas(), kPort, kPort + 80, prefill_replicas());
    }
    if (replicas() == 1) return "Start `server.sh`, or `kubectl apply -f kubernetes.yaml`.\n";
    return fmt::format(
        "Start `server.sh` {} times, with ports from {} on and devices of its own each, and\n"
        "`nginx -c $PWD/nginx.conf`, which listens on port {}; or `kubectl apply -f "
        "kubernetes.yaml`.\n",
        replicas(), kPort, kPort + 80);
  }

  [[nodiscard]] std::string Readme() const {
    std::string text = fmt::format(
        "# {} on {} x {}, {}\n\n{}\n`bench.sh` then measures what was predicted for {} {}:\n\n"
        "| metric | mean | 95 % interval |\n|---|---|---|\n",
        configuration_.candidate.checkpoint, choice_.layout.devices(), hardware_, choice_.server,
        Start(), RoundedText(answer_.load, 4), answer_.load_unit);
    for (const auto& [name, interval] : configuration_.metrics) {
      if (std::isnan(interval.value)) continue;
      text += fmt::format("| {} | {} | {} to {} |\n", name, RoundedText(interval.value, 4),
                          RoundedText(interval.low, 4), RoundedText(interval.high, 4));
    }
    if (RangeRatio() > 0) {
      text +=
          "\nThe prediction is of the request's own lengths; `bench.sh` sends lengths that are "
          "even "
          "about\ntheir means, and its comparison simulates those.\n";
    }
    return text + "\n`twinserve run prediction.textproto` repeats the prediction.\n";
  }

  const Recommendation& answer_;
  const RecommendedConfiguration& configuration_;
  const CandidateSettings& choice_;
  const std::string& hardware_;
};

}  // namespace

std::vector<DeploymentFile> DeploymentFiles(const Recommendation& answer,
                                            const RecommendConfig& request, std::size_t index) {
  return DeploymentWriter(answer, request, index).Files();
}

void WriteDeployment(const Recommendation& answer, const RecommendConfig& request,
                     const std::filesystem::path& folder) {
  if (answer.configurations.empty()) return;
  std::vector<std::size_t> order(answer.configurations.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto own = order.begin() + static_cast<std::ptrdiff_t>(FirstWithOwnWeights(answer));
  std::rotate(order.begin(), own, own + 1);
  std::set<std::string> commands;
  for (const std::size_t i : order) {
    if (commands.size() == kDeploymentsMax) break;
    if (!commands.insert(answer.configurations[i].command).second) continue;
    const std::filesystem::path own =
        commands.size() == 1 ? folder : folder / std::to_string(commands.size());
    MakeOutputFolder(own);
    for (const DeploymentFile& file : DeploymentFiles(answer, request, i)) {
      WriteFile(own / file.name, file.text);
      if (!file.name.ends_with(".sh")) continue;
      using std::filesystem::perms;
      std::filesystem::permissions(own / file.name, perms::owner_exec | perms::group_exec,
                                   std::filesystem::perm_options::add);
    }
  }
}

}  // namespace twin::run
