// Simulates an experiment with its own policy and with ours.
// Usage: my_policy EXPERIMENT.textproto
#include <cstdio>
#include <exception>
#include <memory>

#include "config/experiment_config.h"
#include "run/simulation.h"
#include "shortest_prompt_first.h"

namespace {

std::shared_ptr<const twin::OwnPolicy> Ours() {
  const ShortestPromptFirstConfig config;
  auto own = std::make_shared<twin::OwnPolicy>();
  own->traits = ShortestPromptFirst(config).traits();
  own->name = own->traits.name;
  own->make = [config](const twin::KvPoolConfig& /*kv*/) {
    return std::make_unique<ShortestPromptFirst>(config);
  };
  return own;
}

void Report(const twin::ExperimentTemplate& experiment) {
  const twin::run::Deployment deployment = twin::run::Resolve(experiment.With({}, {}));
  twin::run::RunControl silent;
  const twin::Summary summary = twin::run::Simulate(deployment, silent).summary;
  std::printf("%-24s mean TTFT %8.1f ms  p99 TTFT %8.1f ms  mean TPOT %6.1f ms\n",
              std::string(deployment.traits.name).c_str(), summary.Number("mean_ttft_ms"),
              summary.Number("p99_ttft_ms"), summary.Number("mean_tpot_ms"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: my_policy EXPERIMENT.textproto\n", stderr);
    return 2;
  }
  try {
    twin::ExperimentTemplate experiment{argv[1]};
    Report(experiment);
    experiment.ReplacePolicy(Ours());
    Report(experiment);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "my_policy: %s\n", error.what());
    return 1;
  }
  return 0;
}
