#include "apps/experiment_options/setting_change.h"

#include <fmt/format.h>

namespace twin::apps {
namespace {

// As an option, or without one as --set.
ProposedChange ChangeOf(const std::string& option, const std::string& path,
                        const std::string& value) {
  const std::string field = fmt::format("{}={}", path, value);
  return {option.empty() ? "--set " + field : fmt::format("{} {}", option, value), {field}};
}

}  // namespace

ChangeWriter::ChangeWriter(const ExperimentConfig& config, bool has_options)
    : config_(config), policy_(TraitsOf(config).name), has_options_(has_options) {
  if (config.system.server) server_ = FindServer(*config.system.server);
}

ProposedChange ChangeWriter::Of(const std::string& option, const std::string& path,
                                const std::string& value) const {
  return ChangeOf(has_options_ ? option : "", path, value);
}

std::optional<ProposedChange> ChangeWriter::Of(Setting setting, const std::string& value) const {
  const ServerSetting* const row =
      server_ ? FindSetting(server_->server->family, setting) : nullptr;
  const std::string by_server = row != nullptr ? FieldOf(*row, policy_) : "";
  const std::string path = by_server.empty() ? FieldOfPolicy(policy_, setting) : by_server;
  if (path.empty()) return std::nullopt;
  const bool is_option = has_options_ && !by_server.empty() && row->flag.starts_with("--");
  return ChangeOf(is_option ? row->flag : "", path, value);
}

ProposedChange ChangeWriter::Replicas(std::int64_t replicas) const {
  return Of("--replicas", "system.replicas", std::to_string(replicas));
}

std::optional<ProposedChange> ChangeWriter::TwiceTheRanks() const {
  const std::int32_t ranks = 2 * config_.system.parallelism.tensor;
  if (config_.system.model_spec.query_heads % ranks != 0) return std::nullopt;
  return Of("--tp", "system.tensor_parallel", std::to_string(ranks));
}

}  // namespace twin::apps
