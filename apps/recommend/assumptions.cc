#include "apps/recommend/assumptions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "apps/recommend/objectives.h"
#include "config/servers/servers.h"
#include "run/server_differences.h"

namespace twin::run {

void DescribeSearch(const RecommendConfig& request, const CandidateSpace& space,
                    const CandidateEvaluator& evaluator, Recommendation& answer) {
  answer.objective = ObjectiveTraitsOf(request.objective).name;
  answer.value_unit = evaluator.ValueUnit();
  answer.lower_is_better = evaluator.LowerIsBetter();
  answer.load_unit = evaluator.axis().unit();
  answer.load = evaluator.axis().own;
  answer.assumptions = {
      "steps take as long as the cost model of the device says (docs/configuration.md, "
      "ProfileCost): kernels of SGLang and TensorRT-LLM for their own servers, of vLLM for all "
      "others",
      "replicas stand behind a router, which sends each request to the replica with the fewest "
      "unless `set` has system.router.kind",
      "weights in fp8 or int8 change what a model answers; the quality of answers is not judged"};
  if (!evaluator.axis().whole() && answer.load_unit != "requests/s") {
    answer.assumptions.emplace_back(
        "a trace is one sample: seeds do not vary it, so that intervals do not say how another day "
        "would differ");
  }
  if (std::string length = space.LengthText(); !length.empty()) {
    answer.assumptions.push_back(std::move(length));
  }
  const bool has_pool = std::ranges::any_of(
      request.hardware, [](const auto& offer) { return offer.ffn.has_value(); });
  if (has_pool) {
    answer.assumptions.emplace_back(
        "no server keeps attention and feed-forward networks on devices of their own: its "
        "scheduler is simulated with the times of docs/afd.md, and there is no command to start "
        "it");
    answer.assumptions.emplace_back(
        "of attention groups, pool and micro-batches, those are simulated that are best by the "
        "times of decodes, unless settings list them");
  }
  answer.not_considered = {"speculative decoding"};
  if (has_pool) answer.not_considered.emplace_back("separate prefill beside hardware.ffn");
  for (const std::string& server : space.ServersOf()) {
    if (const std::optional<ListedServer> listed = FindServer(server)) {
      const ServerPreset& preset = *listed->preset;
      const std::string name =
          listed->exact ? server : fmt::format("{}, for which {} stands in", server, preset.name);
      answer.assumptions.push_back(fmt::format("{}: {}", name, preset.source));
    }
    for (std::string& missing : space.MissingSettingsOf(server))
      answer.not_considered.push_back(std::move(missing));
  }
}

void AssumeServers(const std::vector<Candidate>& candidates,
                   std::vector<std::string>& assumptions) {
  std::set<std::tuple<std::size_t, std::size_t, std::string, std::int32_t>> known;
  for (const Candidate& candidate : candidates) {
    const CandidateSettings& choice = candidate.choice;
    const std::int32_t stages = choice.layout.parallelism.pipeline;
    if (!known.emplace(choice.model, choice.hardware, choice.server, stages).second) continue;
    for (std::string& line : ServerDifferences(candidate.deployment.config)) {
      const bool is_new = std::ranges::find(assumptions, line) == assumptions.end();
      if (is_new) assumptions.push_back(std::move(line));
    }
  }
}

}  // namespace twin::run
