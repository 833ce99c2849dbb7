// A model cut into what attention devices and what FFN devices compute.
//
// Attention devices have the embedding, every layer without its MLP, and the head. FFN devices have
// the MLPs. Norms stay with attention, which sends normed rows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/model_spec.h"
#include "sim/cost/ffn_pool_config.h"

namespace twin::sim {

// Bytes of a number of a row between the two sides: it goes out in 8 bits, with a scale of 32 bits
// for each 128 numbers, and comes back in 16 bits.
// Source: Step-3, arXiv 2507.19427, section 5; scales as DeepSeek-V3, arXiv 2412.19437, 3.3.2.
constexpr double kSentBytes = 1 + 4.0 / 128;
constexpr double kReturnedBytes = 2;

// Throws InputError (usage), one line each: a layer without attention or MLP, experts in a latent
// width or that return their input, devices that do not divide experts, widths or layers, or a
// replica with several pipeline stages.
void ValidateSplit(const ModelSpec& model, const Parallelism& parallelism,
                   const FfnPoolConfig& ffn);

// Whether FFN devices hold whole experts.
bool IsExpertParallel(const ModelSpec& model, const FfnPoolConfig& ffn);
// FFN devices that serve one layer. REQUIRES: ValidateSplit() accepts.
std::int32_t FfnDevicesOfLayer(const ModelSpec& model, const FfnPoolConfig& ffn);

// The model without MLPs, as every attention group holds it.
ModelSpec WithoutMlps(const ModelSpec& model);

// `layers` layers of one kind without MLP, between embedding and head.
ModelSpec AttentionLayers(const ModelSpec& model, const LayerSpec& layer, std::int32_t layers);

// The part of a layer's MLP on one FFN device, or on `tensor` of them together.
struct FfnPart {
  LayerSpec mlp;            // without attention and norms
  WeightFormats formats;    // of its matrices
  std::int32_t tensor = 1;  // ranks that share each matrix
  // Rows on the device for each token of the replica.
  double rows_per_token = 1;
};

// The parts that one device computes after each other. With expert parallelism, routed rows are
// spread evenly over the devices: experts with a row for each choice of a token, and matrices that
// every token visits with an equal share of the tokens.
std::vector<FfnPart> FfnParts(const ModelSpec& model, const LayerSpec& layer,
                              const FfnPoolConfig& ffn);

// `layers` layers that consist of the part.
ModelSpec FfnLayers(const ModelSpec& model, const FfnPart& part, std::int32_t layers);

// Mean number of FFN devices that a token of the layer visits, if it chooses experts evenly.
double DevicesVisited(const ModelSpec& model, const LayerSpec& layer, const FfnPoolConfig& ffn);

// Bytes of weights on the FFN device that holds most.
std::int64_t FfnWeightBytes(const ModelSpec& model, const FfnPoolConfig& ffn);

// Throws InputError (usage) if the weights exceed the share of the device's memory.
void RequireFfnPoolFits(const ModelSpec& model, const FfnPoolConfig& ffn);

}  // namespace twin::sim
