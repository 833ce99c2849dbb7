#include "sim/cost/transformer_graph.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/layer_work.h"

namespace twin::sim {
namespace {

struct Link {
  double bytes_per_s;
  double latency_s;
};

// Makes operations with the rates of one device; sizes are one rank's.
class OperationFactory {
 public:
  OperationFactory(const ModelSpec& model, const HardwareSpec& hardware)
      : hardware_(hardware),
        weights_(model.weight_dtype),
        activation_bytes_(static_cast<double>(ActivationByteSize(model))),
        attention_flops_per_s_(
            PeakFlops(hardware, model.weight_dtype == DType::kFp32 ? DType::kFp32 : DType::kBf16) *
            hardware.attention_flops_fraction) {}

  [[nodiscard]] double activation_bytes() const { return activation_bytes_; }

  struct GemmSize {
    std::int64_t k;
    std::int64_t n;
    Feature compute_rows = Feature::kGemmRows;
    Feature moved_rows = Feature::kTokens;
    std::optional<DType> weights = std::nullopt;  // absent: the layers' format
  };

  [[nodiscard]] Operation Gemm(std::string name, const GemmSize& shape) const {
    const auto k = static_cast<double>(shape.k);
    const auto n = static_cast<double>(shape.n);
    const DType weights = shape.weights.value_or(weights_);
    Operation gemm;
    gemm.name = std::move(name);
    gemm.part = StepPart::kGemm;
    gemm.gate = shape.moved_rows;
    gemm.flops = {shape.compute_rows, 2 * k * n};
    gemm.constant_bytes = k * n * BytesPerWeight(weights);
    gemm.bytes[0] = {shape.moved_rows, (k + n) * activation_bytes_};
    gemm.flops_per_s = PeakFlops(hardware_, weights) * hardware_.gemm_flops_fraction;
    gemm.bytes_per_s = hardware_.memory_bandwidth_bytes_per_s * hardware_.gemm_bandwidth_fraction;
    gemm.constant_latency_s = hardware_.gemm_latency_s;
    return gemm;
  }

  // A GEMM of `k` x `n` for each touched expert; all of them one launch.
  [[nodiscard]] Operation ExpertGemm(std::string name, std::int64_t k, std::int64_t n,
                                     std::int64_t experts_per_token) const {
    Operation gemm = Gemm(std::move(name), {.k = k, .n = n, .compute_rows = Feature::kExpertRows});
    gemm.constant_bytes = 0;
    gemm.bytes[0].coefficient *= static_cast<double>(experts_per_token);
    gemm.bytes[1] = {Feature::kTouchedExperts,
                     static_cast<double>(k * n) * BytesPerWeight(weights_)};
    return gemm;
  }

  // Memory-bound work on `rows` rows of `bytes` bytes each.
  [[nodiscard]] Operation Elementwise(std::string name, Feature rows, double bytes,
                                      double flops) const {
    Operation operation;
    operation.name = std::move(name);
    operation.gate = rows;
    operation.flops = {rows, flops};
    operation.bytes[0] = {rows, bytes};
    operation.flops_per_s = hardware_.peak_fp32_flops;
    operation.bytes_per_s =
        hardware_.memory_bandwidth_bytes_per_s * hardware_.elementwise_bandwidth_fraction;
    operation.constant_latency_s = hardware_.elementwise_latency_s;
    return operation;
  }

  [[nodiscard]] Operation Norm(std::string name, Feature rows, std::int64_t hidden) const {
    constexpr double kTensorsMoved = 4;     // update and residual in, residual and result out
    constexpr double kFlopsPerElement = 5;  // addition, square, sum, two scalings
    const auto width = static_cast<double>(hidden);
    return Elementwise(std::move(name), rows, kTensorsMoved * width * activation_bytes_,
                       kFlopsPerElement * width);
  }

  // Attention of a rank: `width` = query heads x head size, `key_bytes` = keys and values of one
  // token.
  [[nodiscard]] Operation PrefillAttention(double width, double key_bytes) const {
    Operation attention = Attention(Feature::kPrefillTokens, width);
    attention.name = "attention_prefill";
    attention.flops = {Feature::kPrefillPairs, kFlopsPerPair * width};
    attention.bytes[1] = {Feature::kPrefillContext, key_bytes};
    return attention;
  }
  [[nodiscard]] Operation DecodeAttention(double width, double key_bytes) const {
    Operation attention = Attention(Feature::kDecodeItems, width);
    attention.name = "attention_decode";
    attention.flops = {Feature::kDecodeContext, kFlopsPerPair * width};
    attention.bytes[1] = {Feature::kDecodeContext, key_bytes};
    attention.latency_s = {Feature::kDecodeItems, hardware_.attention_per_request_s};
    return attention;
  }

  // A message of `bytes` for each of `rows` rows that crosses `link` `hops` times in sequence.
  [[nodiscard]] Operation Transfer(std::string name, Feature rows, double bytes, double hops,
                                   const Link& link) const {
    Operation transfer;
    transfer.name = std::move(name);
    transfer.part = StepPart::kCommunication;
    transfer.gate = rows;
    transfer.bytes[0] = {rows, bytes};
    transfer.bytes_per_s = link.bytes_per_s * hardware_.link_bandwidth_fraction;
    transfer.constant_latency_s = hops * link.latency_s;
    return transfer;
  }

 private:
  // A product and a sum for the score, and for the weighted value, of each dimension.
  static constexpr double kFlopsPerPair = 4;

  // The common part of both phases: queries are read and results written.
  [[nodiscard]] Operation Attention(Feature queries, double width) const {
    Operation attention;
    attention.part = StepPart::kAttention;
    attention.gate = queries;
    attention.bytes[0] = {queries, 2 * width * activation_bytes_};
    attention.flops_per_s = attention_flops_per_s_;
    attention.bytes_per_s =
        hardware_.memory_bandwidth_bytes_per_s * hardware_.attention_bandwidth_fraction;
    attention.constant_latency_s = hardware_.attention_latency_s;
    return attention;
  }

  const HardwareSpec& hardware_;
  DType weights_;
  double activation_bytes_;
  double attention_flops_per_s_;
};

// Adds the operations of one stage in the order in which a stream runs them.
class StageBuilder {
 public:
  StageBuilder(const ModelSpec& model, const HardwareSpec& hardware, const Parallelism& parallelism,
               std::int32_t stage, const RooflineCostConfig& config)
      : model_(model),
        hardware_(hardware),
        parallelism_(parallelism),
        stage_(stage),
        config_(config),
        make_(model, hardware),
        layers_(StageLayers(model, parallelism, stage)),
        products_(LayerProducts(model, model, parallelism)),
        query_width_(std::int64_t{model.query_heads} / parallelism.tensor * model.head_dim),
        kv_width_(std::int64_t{KvHeadsPerRank(model, parallelism)} * model.head_dim) {}

  OperationGraph Build() && {
    if (stage_ == 0) AddEmbedding();
    if (model_.query_heads > 0) AddAttention();
    if (model_.has_mlp()) AddMlp();
    if (stage_ == parallelism_.pipeline - 1) {
      AddHead();
    } else {
      const auto bytes = static_cast<double>(model_.hidden) * make_.activation_bytes();
      Append(make_.Transfer("stage_send", Feature::kTokens, bytes, 1, NextStageLink()));
    }
    return std::move(graph_);
  }

 private:
  // Puts the operation after all that were last appended.
  OperationGraph::Vertex Append(Operation operation, std::int64_t count = 1) {
    operation.count = count;
    const auto vertex = graph_.Add(std::move(operation));
    if (tail_) graph_.Order(*tail_, vertex);
    if (second_tail_) graph_.Order(*second_tail_, vertex);
    second_tail_.reset();
    tail_ = vertex;
    return vertex;
  }

  // Ranks are numbered stage by stage and fill the nodes in order.
  [[nodiscard]] Link RanksLink() const {
    const std::int32_t first = stage_ * parallelism_.tensor;
    const std::int32_t last = first + parallelism_.tensor - 1;
    const bool same_node = first / hardware_.devices_per_node == last / hardware_.devices_per_node;
    return same_node ? DevicesLink() : NodesLink();
  }
  [[nodiscard]] Link DevicesLink() const {
    return {hardware_.link_bandwidth_bytes_per_s, hardware_.link_latency_s};
  }
  [[nodiscard]] Link NodesLink() const {
    return {hardware_.inter_node_bandwidth_bytes_per_s, hardware_.inter_node_latency_s};
  }
  [[nodiscard]] Link NextStageLink() const {
    const std::int32_t first_of_next = (stage_ + 1) * parallelism_.tensor;
    const bool same_node = (first_of_next - 1) / hardware_.devices_per_node ==
                           first_of_next / hardware_.devices_per_node;
    return same_node ? DevicesLink() : NodesLink();
  }

  void AddAllReduce(const char* name, std::int64_t count) {
    const double ranks = parallelism_.tensor;
    if (parallelism_.tensor == 1) return;
    const double bytes =
        2 * (ranks - 1) / ranks * static_cast<double>(model_.hidden) * make_.activation_bytes();
    Append(make_.Transfer(name, Feature::kTokens, bytes, 2 * (ranks - 1), RanksLink()), count);
  }

  void AddEmbedding() {
    const auto row_bytes = static_cast<double>(ByteSize(EmbeddingFormat(model_.weight_dtype))) +
                           make_.activation_bytes();
    Append(make_.Elementwise("embedding", Feature::kTokens,
                             static_cast<double>(model_.hidden) * row_bytes, 0));
    AddAllReduce("embedding_all_reduce", 1);
  }

  // Norms before a block and, in families with four norms per layer, after it.
  void AddNorm(const char* name) {
    const std::int64_t count = layers_ * model_.norms_per_layer / 2;
    Append(make_.Norm(name, Feature::kTokens, model_.hidden), count);
  }

  void AddAttention() {
    const auto query = static_cast<double>(query_width_);
    const auto kv = static_cast<double>(2 * kv_width_);
    const auto key_bytes =
        static_cast<double>(KvBytesPerTokenAndLayer(model_, model_, parallelism_));
    AddNorm("attention_norm");
    for (const LayerProduct& product : products_) {
      if (product.part == LayerPart::kAttention && product.role != ProductRole::kOutput) {
        AddProduct(product);
      }
    }
    // Reads queries, keys and values; writes queries back, keys and values to the cache.
    const double moved = (2 * query + kv) * make_.activation_bytes() + key_bytes;
    Append(make_.Elementwise("rotary_and_cache_write", Feature::kTokens, moved, 6 * (query + kv)),
           layers_);
    const auto before = tail_;
    const auto prefill = Append(make_.PrefillAttention(query, key_bytes), layers_);
    if (config_.overlaps_attention) tail_ = before;
    Append(make_.DecodeAttention(query, key_bytes), layers_);
    if (config_.overlaps_attention) second_tail_ = prefill;
    for (const LayerProduct& product : products_) {
      if (product.part == LayerPart::kAttention && product.role == ProductRole::kOutput) {
        AddProduct(product);
      }
    }
    AddAllReduce("attention_all_reduce", layers_);
    AddNorm("mlp_norm");
  }

  void AddMlp() {
    for (const LayerProduct& product : products_) {
      if (product.part == LayerPart::kAttention) continue;
      AddProduct(product);
      if (product.role == ProductRole::kGateUp) AddActivation(product);
    }
    AddAllReduce("mlp_all_reduce", layers_);
  }

  void AddProduct(const LayerProduct& product) {
    const std::string name = PrefixOf(product) + NameOf(product.role);
    if (product.part == LayerPart::kExperts) {
      Append(make_.ExpertGemm(name, product.inputs, product.outputs, model_.moe.experts_per_token),
             layers_);
    } else {
      Append(make_.Gemm(name, {.k = product.inputs, .n = product.outputs}), layers_);
    }
  }

  // Behind the gate and up projections `product`.
  void AddActivation(const LayerProduct& product) {
    const std::int64_t width = product.outputs / (model_.gated_mlp ? 2 : 1);
    const bool is_routed = product.part == LayerPart::kExperts;
    const auto per_token =
        static_cast<double>(is_routed ? width * model_.moe.experts_per_token : width);
    const double moved = model_.gated_mlp ? 3 : 2;
    Append(make_.Elementwise(PrefixOf(product) + "activation", Feature::kTokens,
                             moved * per_token * make_.activation_bytes(), 5 * per_token),
           layers_);
  }

  static std::string PrefixOf(const LayerProduct& product) {
    if (product.part == LayerPart::kShared) return "shared_";
    return product.part == LayerPart::kExperts ? "expert_" : "";
  }

  [[nodiscard]] const char* NameOf(ProductRole role) const {
    switch (role) {
      case ProductRole::kInput:
        return "qkv_projection";
      case ProductRole::kLatentHeads:
        return "latent_projection";
      case ProductRole::kIndex:
        return "index_projection";
      case ProductRole::kGate:
        return "gate_projection";
      case ProductRole::kOutput:
        return "output_projection";
      case ProductRole::kRouter:
        return "router";
      case ProductRole::kResize:
        return "resize_projection";
      case ProductRole::kGateUp:
        return model_.gated_mlp ? "gate_up_projection" : "up_projection";
      case ProductRole::kDown:
        return "down_projection";
      case ProductRole::kLinear:
        return "linear_projection";
    }
    return "";
  }

  void AddHead() {
    const double ranks = parallelism_.tensor;
    const std::int64_t share = (model_.vocab + parallelism_.tensor - 1) / parallelism_.tensor;
    const auto vocab = static_cast<double>(model_.vocab);
    if (model_.final_norm) {
      Append(make_.Norm("final_norm", Feature::kEmittingItems, model_.hidden));
    }
    Append(make_.Gemm("lm_head", {.k = model_.hidden,
                                  .n = share,
                                  .compute_rows = Feature::kEmittingItems,
                                  .moved_rows = Feature::kEmittingItems,
                                  .weights = EmbeddingFormat(model_.weight_dtype)}));
    if (parallelism_.tensor > 1) {
      const double bytes = (ranks - 1) / ranks * vocab * make_.activation_bytes();
      Append(make_.Transfer("logits_all_gather", Feature::kEmittingItems, bytes, ranks - 1,
                            RanksLink()));
    }
    // Widened to fp32 (read, write), reduced to a maximum and a sum (read), picked from (read).
    const double moved = vocab * (make_.activation_bytes() + 12);
    Operation sampling = make_.Elementwise("sampling", Feature::kEmittingItems, moved, 5 * vocab);
    sampling.part = StepPart::kSampling;
    Append(std::move(sampling));
  }

  const ModelSpec& model_;
  const HardwareSpec& hardware_;
  const Parallelism& parallelism_;
  std::int32_t stage_;
  const RooflineCostConfig& config_;
  OperationFactory make_;
  std::int64_t layers_;
  std::vector<LayerProduct> products_;  // of one layer
  std::int64_t query_width_;
  std::int64_t kv_width_;
  OperationGraph graph_;
  std::optional<OperationGraph::Vertex> tail_;
  std::optional<OperationGraph::Vertex> second_tail_;
};

}  // namespace

double PeakFlops(const HardwareSpec& hardware, DType type) {
  const double wide =
      hardware.peak_bf16_flops > 0 ? hardware.peak_bf16_flops : hardware.peak_fp32_flops;
  switch (type) {
    case DType::kFp32:
      return hardware.peak_fp32_flops;
    case DType::kBf16:
    case DType::kFp16:
    case DType::kInt4:  // widened to 16 bits in the product
    case DType::kInt4Group32:
      return wide;
    case DType::kMxfp4:
    case DType::kNvfp4:
      return std::max(wide, hardware.peak_fp4_flops);
    case DType::kFp8:
    case DType::kFp8Block:
      return hardware.peak_fp8_flops > 0 ? hardware.peak_fp8_flops : wide;
    case DType::kInt8:
      return hardware.peak_int8_flops > 0 ? hardware.peak_int8_flops : wide;
  }
  return wide;
}

OperationGraph BuildStageGraph(const ModelSpec& model, const HardwareSpec& hardware,
                               const Parallelism& parallelism, std::int32_t stage,
                               const RooflineCostConfig& config) {
  return StageBuilder(model, hardware, parallelism, stage, config).Build();
}

}  // namespace twin::sim
