// The configurations that a request leaves open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "apps/recommend/candidate_settings.h"
#include "apps/recommend/longest_request.h"
#include "config/recommend_config.h"
#include "core/dtype.h"
#include "core/model_spec.h"
#include "run/cost_cache.h"
#include "run/deployment.h"

namespace twin::run {

// A setting, by its name in OpenSettings, and its value.
using Parameter = std::pair<std::string, std::variant<std::int64_t, double, std::string>>;

// A configuration that can run.
struct Candidate {
  CandidateSettings choice;  // every setting set, as resolved
  Deployment deployment;
  std::string checkpoint;     // name of the model on the server's command line
  double price_per_hour = 0;  // of all devices that it uses; 0: not given
  bool quantised = false;     // weights of fewer bytes than those of the model as it is named
};

// A configuration that cannot run, or does not keep the bounds.
struct RejectedSettings {
  CandidateSettings choice;
  std::string reason;
};

// The price per hour of all devices, or, without prices, their number.
double FleetValue(const Candidate& candidate);

// Settings with the names of the request; unset ones are left out.
std::vector<Parameter> ParametersOf(const RecommendConfig& request,
                                    const CandidateSettings& choice);

// "model llama-3-8b, hardware h100-sxm, ..."
std::string TextOf(const std::vector<Parameter>& parameters);

class CandidateSpace {
 public:
  // Borrows the request. Throws InputError (usage) for a model, a data sheet or a server that does
  // not exist, for a workload or a change that is not valid, and for a setting that the request
  // names and none of its servers has.
  explicit CandidateSpace(const RecommendConfig& request);

  // All combinations of the open settings. The first value of a setting is the server's default.
  [[nodiscard]] std::vector<CandidateSettings> Grid() const;

  // Throws InputError if the choice cannot run: weights that do not fit, heads that do not divide.
  [[nodiscard]] Candidate Make(const CandidateSettings& choice, CostCache& costs) const;

  // The configurations of the grid that can run, each once: settings that resolve to equal ones are
  // one candidate.
  [[nodiscard]] std::vector<Candidate> All(CostCache& costs,
                                           std::vector<RejectedSettings>& rejected) const;

  // A sentence on max_model_len and where it comes from; empty if the request names it.
  [[nodiscard]] std::string LengthText() const;

  [[nodiscard]] const RecommendConfig& request() const { return request_; }
  [[nodiscard]] std::vector<std::string> ServersOf() const;
  // Formats of the weights to try; nullopt: each part as the checkpoint stores it.
  [[nodiscard]] std::vector<std::optional<DType>> DtypesOf(std::size_t model,
                                                           std::size_t hardware) const;
  // Layouts that the request allows and the devices hold. Stages are tried only with servers whose
  // stages are simulated, unless the request names them; separate prefill only with servers that
  // have it.
  [[nodiscard]] std::vector<Layout> LayoutsOf(std::size_t hardware,
                                              const std::string& server) const;
  // The layouts of configurations with this model, hardware, server and type of weights.
  [[nodiscard]] std::vector<Layout> LayoutsFor(const CandidateSettings& base) const;
  // Sentences naming the requested settings that the server lacks.
  [[nodiscard]] std::vector<std::string> MissingSettingsOf(const std::string& server) const;

 private:
  void RequireKnownSettings() const;
  void RequireFfnPoolLayouts() const;
  // Tokens of the longest request that a server takes. nullopt before the models are read.
  [[nodiscard]] std::optional<std::int64_t> ContextTokensOf(std::size_t model) const;
  // Adds `whole` with each number of prefilling replicas that is to be tried.
  void AddSplits(const Layout& whole, const std::string& server,
                 std::vector<Layout>& layouts) const;
  void AddLayouts(CandidateSettings base, std::vector<CandidateSettings>& grid) const;
  void AddGridOf(const CandidateSettings& base, std::vector<CandidateSettings>& grid) const;
  [[nodiscard]] std::vector<std::string> ChangesOf(const CandidateSettings& choice) const;

  // Layouts of one model on hardware with a pool for feed-forward networks.
  struct FfnPoolLayoutsOf {
    std::size_t model = 0;
    std::size_t hardware = 0;
    std::optional<DType> weight_dtype;
    std::vector<Layout> layouts;
  };
  void FindFfnPoolLayouts();
  [[nodiscard]] std::vector<Layout> SearchFfnPoolLayouts(CandidateSettings base,
                                                         const LongestRequest& lengths,
                                                         CostCache& costs) const;

  const RecommendConfig& request_;
  std::vector<HardwareSpec> hardware_;
  std::vector<std::optional<DType>> model_dtypes_;  // nullopt: parts have formats of their own
  std::vector<std::int32_t> model_tokens_;          // prompt and output that each model allows
  std::optional<LongestRequest> longest_;  // of the load, unless the request names its limit
  std::vector<FfnPoolLayoutsOf> ffn_layouts_;
};

}  // namespace twin::run
