#include "config/default_messages.h"

#include <google/protobuf/message.h>

#include <utility>
#include <vector>

#include "config/experiment.pb.h"
#include "config/hand_bindings.h"
#include "config/recommend.bind.h"
#include "config/recommend.pb.h"
#include "config/study.pb.h"
#include "core/check.h"
#include "sched/policy/policy_config.h"

namespace twin {
namespace {

using Messages = std::map<std::string, std::unique_ptr<google::protobuf::Message>>;

template <class Config, class MessageType>
void Add(Messages& messages) {
  auto message = std::make_unique<MessageType>();
  // On the heap: GCC 12 takes members of large configs on the stack for uninitialised.
  const auto config = std::make_unique<Config>();
  ToMessage fields(*message);
  Bind(fields, *config);
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

// Adds the message of the alternative that `choice` holds: the only field that is set.
template <class MessageType, class Variant>
void AddChosen(Variant choice, Messages& messages) {
  MessageType message;
  ToMessage fields(message);
  Bind(fields, choice);
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  CHECK(set.size() == 1);
  const google::protobuf::Message& chosen = reflection.GetMessage(message, set.front());
  std::unique_ptr<google::protobuf::Message> copy(chosen.New());
  copy->CopyFrom(chosen);
  messages[copy->GetDescriptor()->full_name()] = std::move(copy);
}

void AddPoliciesAndCosts(Messages& messages) {
  for (const PolicyConfig& config : DefaultPolicyConfigs()) {
    AddChosen<proto::Policy>(config, messages);
  }
  Add<PolicyFile, proto::OwnPolicy>(messages);
  Add<PolicyParameter, proto::OwnPolicy::Parameter>(messages);
  Add<SlackChunking, proto::SlackChunking>(messages);
  Add<ServiceTier, proto::ServiceTier>(messages);
  Add<OrderConfig, proto::RequestOrder>(messages);
  for (const sim::CostConfig& config : sim::DefaultCostConfigs()) {
    AddChosen<proto::Cost>(config, messages);
  }
  Add<sim::CostPoint, proto::CostPoint>(messages);
  Add<sim::AttentionPart, proto::AttentionCost>(messages);
  Add<sim::LinearPart, proto::LinearPartCost>(messages);
}

// A replica group has no defaults of its own: unset fields inherit from `system`.
void AddReplicaGroup(Messages& messages) {
  proto::ReplicaGroup all;
  ReplicaGroup group;
  ToMessage fields(all);
  Bind(fields, group);
  auto message = std::make_unique<proto::ReplicaGroup>();
  message->set_count(all.count());
  message->set_role(all.role());
  messages[proto::ReplicaGroup::descriptor()->full_name()] = std::move(message);
}

}  // namespace

Messages DefaultMessages() {
  Messages messages;
  AddWorkload(messages);
  AddPoliciesAndCosts(messages);
  Add<SimulatedWorldConfig, proto::SimulatedWorld>(messages);
  Add<sim::BoundaryConfig, proto::Boundary>(messages);
  Add<TokenSamplingConfig, proto::TokenSampling>(messages);
  Add<RealWorldConfig, proto::RealWorld>(messages);
  Add<EmulatedWorldConfig, proto::EmulatedWorld>(messages);
  Add<HardwareSpec, proto::Hardware>(messages);
  Add<MoeSpec, proto::ModelShape::Moe>(messages);
  Add<EnergySpec, proto::Hardware::Energy>(messages);
  Add<PriceSpec, proto::Hardware::Price>(messages);
  Add<DataflowSpec, proto::Hardware::Dataflow>(messages);
  Add<ReachLatency, proto::Hardware::Dataflow::Reach>(messages);
  Add<StageGroup, proto::StageGroup>(messages);
  Add<LatentSpec, proto::ModelShape::Latent>(messages);
  Add<RecurrentSpec, proto::ModelShape::Recurrent>(messages);
  Add<BlockIndexSpec, proto::ModelShape::BlockIndex>(messages);
  Add<LayerSpec, proto::ModelShape::Layer>(messages);
  Add<LayerGroup, proto::ModelShape::LayerGroup>(messages);
  Add<WeightFormats, proto::ModelShape::Formats>(messages);
  Add<ModelSpec, proto::ModelShape>(messages);
  Add<sim::MemoryConfig, proto::Memory>(messages);
  Add<RouterConfig, proto::Router>(messages);
  Add<sim::LinkConfig, proto::Link>(messages);
  Add<MixedPoolConfig, proto::MixedPool>(messages);
  Add<DisaggregatedSystem, proto::Disaggregation>(messages);
  Add<sim::FfnPoolLinkConfig, proto::FfnLink>(messages);
  Add<sim::FfnPoolConfig, proto::Ffn>(messages);
  AddReplicaGroup(messages);
  Add<SystemConfig, proto::System>(messages);
  Add<ServiceGoal, proto::Slo>(messages);
  Add<RunMetricsConfig, proto::Metrics>(messages);
  Add<OutputsConfig, proto::Outputs>(messages);
  Add<SpeculationConfig, proto::Speculation>(messages);
  Add<ExperimentConfig, proto::Experiment>(messages);
  Add<AxisConfig, proto::Axis>(messages);
  Add<SamplingConfig, proto::Sampling>(messages);
  Add<WarmupRule, proto::Warmup>(messages);
  Add<StudyConfig, proto::Study>(messages);
  Add<ServedModelConfig, proto::ServedModel>(messages);
  Add<OfferedHardwareConfig, proto::OfferedHardware>(messages);
  Add<RecommendConfig, proto::RecommendationRequest>(messages);
  return messages;
}

}  // namespace twin
