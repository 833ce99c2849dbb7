#include "sim/cost/dataflow_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/check.h"
#include "core/input_error.h"
#include "core/layer_groups.h"
#include "core/layer_work.h"

namespace twin::sim {
namespace {

constexpr std::string_view kDataflowName = "cost.dataflow";

// Checks before the members are built from them.
const HardwareSpec& Checked(const ModelSpec& model, const HardwareSpec& hardware,
                            const Parallelism& parallelism) {
  Validate(hardware);
  Validate(model, parallelism);
  if (!hardware.dataflow) {
    throw InputError(InputError::Kind::kUsage, std::string(kDataflowName),
                     fmt::format("{} is no dataflow machine; allowed: a data sheet with the block "
                                 "dataflow, such as lpu-v1",
                                 hardware.name));
  }
  for (std::int32_t stage = 0; stage < parallelism.pipeline; ++stage) {
    const std::int32_t devices = parallelism.StageDevices(stage);
    if (devices > 1) RequireTopology(hardware, parallelism.topology, devices);
  }
  return hardware;
}

// The keys that a query of `layer` reads.
KeyWindow KeysRead(const ModelSpec& model, const LayerSpec& layer) {
  const bool indexed = layer.latent && layer.latent->index_heads > 0;
  return {.keys = indexed ? layer.latent->index_keys : std::max(layer.sliding_window, layer.chunk),
          .share = WindowedShare(model)};
}

// Flops per second of a device in the format that it moves weights in.
double ComputeFlops(const HardwareSpec& hardware) {
  const bool is_byte = ByteSize(hardware.dataflow->compute_dtype) == 1;
  return is_byte ? std::max(hardware.peak_fp8_flops, hardware.peak_int8_flops)
                 : hardware.peak_bf16_flops;
}

}  // namespace

double HeadsUnevenness(KvSplit split, std::int64_t heads, std::int64_t devices) {
  if (split == KvSplit::kContext) return 1;
  const std::int64_t most = (heads + devices - 1) / devices;
  return static_cast<double>(most * devices) / static_cast<double>(heads);
}

std::int32_t FreeTokens(const HardwareSpec& hardware) {
  CHECK(hardware.dataflow.has_value());
  const auto bytes = static_cast<double>(ByteSize(hardware.dataflow->compute_dtype));
  const double tokens =
      ComputeFlops(hardware) * bytes / (2 * hardware.dataflow->install_bytes_per_s);
  constexpr double kRounding = 1e-9;
  return std::max(1, static_cast<std::int32_t>(tokens * (1 + kRounding)));
}

// Rates of the devices of a stage together.
struct DataflowStage::Rates {
  double bytes_per_s = 0;
  double flops_per_s = 0;
  double weight_bytes = 0;  // as moved
  std::int32_t devices = 1;
  KvSplit split = KvSplit::kHeads;
  const DataflowSpec& machine;

  [[nodiscard]] Product ProductOf(double weights) const {
    return {weights * weight_bytes / bytes_per_s, 2 * weights / flops_per_s};
  }
  [[nodiscard]] double Uneven(std::int64_t heads) const {
    return HeadsUnevenness(split, heads, devices);
  }
};

DataflowStage::Kind DataflowStage::KindOf(const ModelSpec& model, const LayerGroup& group,
                                          const Rates& rates) {
  const LayerSpec& layer = group.layer;
  const LayerCount count = CountLayer(model, layer, {}, layer.moe.experts);
  const MoeSpec& moe = layer.moe;
  const std::int64_t router = std::int64_t{model.hidden} * (moe.experts + moe.identity_experts);
  const double queries = layer.query_heads > 0 ? rates.Uneven(layer.query_heads) : 1;
  Kind kind{.layers = static_cast<double>(group.layers),
            .features = FeatureExtractor(KeysRead(model, layer), layer.moe)};
  kind.dense =
      rates.ProductOf(queries * static_cast<double>(count.attention) +
                      static_cast<double>(count.recurrent + count.dense + count.shared + router));
  kind.overhead_s = rates.machine.layer_overhead_s;
  if (moe.experts > 0) {
    kind.expert = rates.ProductOf(static_cast<double>(count.experts) / moe.experts);
    kind.overhead_s += rates.machine.dispatch_s;
  }
  if (layer.recurrent) {
    kind.sequence_s = 2 * static_cast<double>(FixedKvBytes(model, layer, {})) / rates.bytes_per_s;
  } else if (layer.query_heads > 0) {
    const std::int64_t kv_heads = layer.latent ? 1 : layer.kv_heads;
    const auto bytes =
        static_cast<double>(KvBytesPerTokenAndLayer(model, layer, {}) + IndexBytesPerToken(layer));
    kind.key_s = rates.Uneven(kv_heads) * bytes / rates.bytes_per_s;
    kind.pair_s = queries * static_cast<double>(PairFlopsOf(layer).decodes) / rates.flops_per_s;
  }
  return kind;
}

DataflowStage::DataflowStage(const ModelSpec& model, const HardwareSpec& hardware,
                             const Parallelism& parallelism, std::int32_t stage)
    : devices_(parallelism.StageDevices(stage)), layers_(StageLayers(model, parallelism, stage)) {
  CHECK(hardware.dataflow.has_value());
  const DataflowSpec& machine = *hardware.dataflow;
  const Rates rates{.bytes_per_s = devices_ * machine.install_bytes_per_s,
                    .flops_per_s = devices_ * ComputeFlops(hardware),
                    .weight_bytes = static_cast<double>(ByteSize(machine.compute_dtype)),
                    .devices = devices_,
                    .split = parallelism.kv_split,
                    .machine = machine};
  if (layers_ > 0) {
    for (const LayerGroup& group : StageLayerKinds(model, parallelism, stage)) {
      if (!group.layer.is_empty()) kinds_.push_back(KindOf(model, group, rates));
    }
  }
  row_bytes_ = static_cast<double>(model.hidden * ActivationByteSize(model));
  all_reduce_ = AllReduceOf(hardware, parallelism.topology, devices_);
  constexpr double kReduces = 2;  // after attention and after the MLP
  reduces_per_layer_ = kReduces + (parallelism.kv_split == KvSplit::kContext ? 1 : 0);
  const double within = devices_ > 1 ? LinkLatency(hardware, devices_) : 0;
  const bool is_last = stage == parallelism.pipeline - 1;
  const std::int32_t next = is_last ? 0 : stage + 1;
  const std::int32_t both = devices_ + parallelism.StageDevices(next);
  const double onward = parallelism.pipeline > 1 ? LinkLatency(hardware, both) : 0;
  if (is_last) {
    const std::int64_t width = model.embedding_width > 0 ? model.embedding_width : model.hidden;
    head_ = rates.ProductOf(static_cast<double>(model.vocab * width));
    head_hops_s_ = within + onward;
  } else {
    send_latency_s_ = onward;
    send_s_per_byte_ = 1 / (devices_ * LinkBandwidth(hardware, both > hardware.devices_per_node));
  }
}

DataflowSeconds DataflowStage::Seconds(const StepTotals& totals) const {
  const auto tokens = static_cast<double>(totals.tokens());
  DataflowSeconds sum;
  for (const Kind& kind : kinds_) {
    const StepFeatures x = kind.features(totals);
    const auto of = [&x](Feature feature) { return x[static_cast<std::size_t>(feature)]; };
    const double touched = of(Feature::kTouchedExperts);
    const double rows = touched > 0 ? of(Feature::kExpertRows) / touched : 0;
    sum.products +=
        kind.layers * (kind.dense.Seconds(tokens) + touched * kind.expert.Seconds(rows));
    const auto items = static_cast<double>(totals.decode_items + totals.prefill_items);
    const auto attention = [&kind](double keys, double pairs) {
      return std::max(keys * kind.key_s, pairs * kind.pair_s);
    };
    sum.attention +=
        kind.layers * (attention(of(Feature::kDecodeContext), of(Feature::kDecodeContext)) +
                       attention(of(Feature::kPrefillContext), of(Feature::kPrefillPairs)) +
                       items * kind.sequence_s);
    sum.overhead += kind.layers * kind.overhead_s;
  }
  const double bytes = tokens * row_bytes_;
  if (devices_ > 1) sum.links += layers_ * reduces_per_layer_ * all_reduce_.Seconds(bytes);
  sum.links += send_latency_s_ + bytes * send_s_per_byte_;
  if (head_ && totals.logit_rows() > 0) {
    sum.products += head_->Seconds(static_cast<double>(totals.logit_rows()));
    sum.links += head_hops_s_;
  }
  return sum;
}

DataflowCost::DataflowCost(const ModelSpec& model, const HardwareSpec& hardware,
                           const Parallelism& parallelism, std::int64_t kv_block_bytes)
    : swap_(Checked(model, hardware, parallelism), kv_block_bytes) {
  std::vector<std::int32_t> firsts;  // a stage of each kind
  const auto alike = [&](std::int32_t a, std::int32_t b) {
    const auto next = [&](std::int32_t stage) {
      return parallelism.StageDevices((stage + 1) % parallelism.pipeline);
    };
    const bool last = a == parallelism.pipeline - 1 || b == parallelism.pipeline - 1;
    return !last && parallelism.StageDevices(a) == parallelism.StageDevices(b) &&
           next(a) == next(b) &&
           StageLayerKinds(model, parallelism, a) == StageLayerKinds(model, parallelism, b);
  };
  for (std::int32_t stage = 0; stage < parallelism.pipeline; ++stage) {
    const auto known =
        std::ranges::find_if(firsts, [&](std::int32_t first) { return alike(first, stage); });
    const auto index = static_cast<std::size_t>(known - firsts.begin());
    if (known == firsts.end()) {
      firsts.push_back(stage);
      distinct_.push_back({DataflowStage(model, hardware, parallelism, stage), 0});
    }
    ++distinct_[index].count;
    stage_of_.push_back(static_cast<std::uint32_t>(index));
  }
}

void DataflowCost::DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const {
  CHECK(stage_times.size() == stage_of_.size());
  const double swap = swap_.Seconds(plan);
  std::vector<Duration> times;
  times.reserve(distinct_.size());
  for (const Distinct& distinct : distinct_) {
    times.push_back(
        CostDuration(kDataflowName, swap + distinct.stage.Seconds(plan.totals).total()));
  }
  for (std::size_t i = 0; i < stage_of_.size(); ++i) stage_times[i] = times[stage_of_[i]];
}

std::optional<StepParts> DataflowCost::Parts(const StepPlan& plan) const {
  const double swap = swap_.Seconds(plan);
  StepParts parts;
  Duration device{0};
  for (const auto& [stage, count] : distinct_) {
    const DataflowSeconds seconds = stage.Seconds(plan.totals);
    device += count * CostDuration(kDataflowName, swap + seconds.total());
    parts[StepPart::kBuild] += CostDuration(kDataflowName, count * swap);
    parts[StepPart::kGemm] += CostDuration(kDataflowName, count * seconds.products);
    parts[StepPart::kAttention] += CostDuration(kDataflowName, count * seconds.attention);
    parts[StepPart::kCommunication] += CostDuration(kDataflowName, count * seconds.links);
    parts[StepPart::kOther] += CostDuration(kDataflowName, count * seconds.overhead);
  }
  // Each part was rounded by itself.
  parts[StepPart::kOther] += device - parts.device();
  return parts;
}

}  // namespace twin::sim
