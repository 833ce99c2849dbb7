#include "proto/default_messages.h"

#include "proto/experiment.pb.h"
#include "proto/experiment_binding.h"

namespace twin {
namespace {

using Messages = std::map<std::string, std::unique_ptr<google::protobuf::Message>>;

template <class Config, class MessageType>
void Add(Messages& messages) {
  auto message = std::make_unique<MessageType>();
  Config config{};
  ToMessage fields(*message);
  Bind(fields, config);
  messages[MessageType::descriptor()->full_name()] = std::move(message);
}

void AddWorkload(Messages& messages) {
  Add<IntegerDistribution, proto::IntegerDistribution>(messages);
  Add<DurationDistribution, proto::DurationDistribution>(messages);
  Add<ArrivalConfig, proto::Arrivals>(messages);
  Add<ColumnFilter, proto::Trace::Filter>(messages);
  Add<TraceConfig, proto::Trace>(messages);
  Add<ServeGenConfig, proto::ServeGen>(messages);
  Add<MaxOutputRule, proto::MaxOutput>(messages);
  Add<PredictionConfig, proto::Prediction>(messages);
  Add<TenantConfig, proto::Tenant>(messages);
  Add<SharedPrefixConfig, proto::SharedPrefix>(messages);
  Add<SessionConfig, proto::Sessions>(messages);
  Add<RequestShape, proto::RequestShape>(messages);
  Add<WorkloadClass, proto::WorkloadClass>(messages);
  Add<WorkloadConfig, proto::Workload>(messages);
}

void AddPoliciesAndCosts(Messages& messages) {
  Add<StaticConfig, proto::StaticPolicy>(messages);
  Add<OrcaConfig, proto::OrcaPolicy>(messages);
  Add<VllmV0Config, proto::VllmV0Policy>(messages);
  Add<VllmV1Config, proto::VllmV1Policy>(messages);
  Add<SarathiConfig, proto::SarathiPolicy>(messages);
  Add<SplitFuseConfig, proto::SplitFusePolicy>(messages);
  Add<sim::ConstantCostConfig, proto::ConstantCost>(messages);
  Add<sim::LinearCostConfig, proto::LinearCost>(messages);
  Add<sim::RooflineCostConfig, proto::RooflineCost>(messages);
  Add<sim::FittedCostConfig, proto::FittedCost>(messages);
  Add<sim::CostPoint, proto::CostPoint>(messages);
  Add<sim::AttentionPart, proto::AttentionCost>(messages);
  Add<sim::LinearPart, proto::LinearPartCost>(messages);
}

}  // namespace

Messages DefaultMessages() {
  Messages messages;
  AddWorkload(messages);
  AddPoliciesAndCosts(messages);
  Add<RealWorldConfig, proto::RealWorld>(messages);
  Add<HardwareSpec, proto::Hardware>(messages);
  Add<MoeSpec, proto::ModelShape::Moe>(messages);
  Add<ModelSpec, proto::ModelShape>(messages);
  Add<sim::MemoryConfig, proto::Memory>(messages);
  Add<SystemConfig, proto::System>(messages);
  Add<ServiceGoal, proto::Slo>(messages);
  Add<RunMetricsConfig, proto::Metrics>(messages);
  Add<OutputsConfig, proto::Outputs>(messages);
  Add<ExperimentConfig, proto::Experiment>(messages);
  return messages;
}

}  // namespace twin
