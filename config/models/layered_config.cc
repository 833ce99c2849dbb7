#include "config/models/layered_config.h"

#include <array>

#include "core/layer_groups.h"

namespace twin {
namespace {

constexpr std::array kAll = {LatentReaders, MixtureReaders, RecurrentReaders, DenseReaders};

const LayeredReader* Find(std::string_view model_type) {
  for (const auto readers : kAll) {
    for (const LayeredReader& reader : readers()) {
      if (reader.model_type == model_type) return &reader;
    }
  }
  return nullptr;
}

struct Refused {
  std::string_view model_type;
  std::string_view why;
};
constexpr std::array kRefused = {
    Refused{"deepseek_v4",
            "compressed keys beside windows are not modelled; use a preset of deepseek-v3.2"},
    Refused{"jamba", "Mamba-1 layers are not modelled; use a model with Mamba-2, as nemotron_h"},
    Refused{"mamba", "Mamba-1 layers are not modelled; use a model with Mamba-2, as nemotron_h"},
    Refused{"mllama", "cross-attention is not modelled; use the text model of the same size"},
    Refused{"t5", "encoders are not modelled; use a decoder-only model"},
    Refused{"bart", "encoders are not modelled; use a decoder-only model"},
    Refused{"bert", "encoders are not modelled; use a decoder-only model"},
};

// MiniMax-M2 names num_mtp_modules, but its weights hold none.
bool HasMtpModule(LayeredFields& fields) {
  return fields.Or("num_nextn_predict_layers", 0) > 0 || fields.Or("mtp_num_hidden_layers", 0) > 0;
}

// The module's layer is as the model's last one; one that reuses an index owns its own.
LayerSpec MtpLayerOf(const ModelSpec& model) {
  LayerSpec layer = OrderedLayers(model).back().layer;
  if (layer.latent) layer.latent->reuses_index = false;
  return layer;
}

}  // namespace

bool IsLayeredFamily(std::string_view model_type) { return Find(model_type) != nullptr; }

std::string LayeredFamilyNames() {
  std::string names;
  for (const auto readers : kAll) {
    for (const LayeredReader& reader : readers()) {
      if (!names.empty()) names += ", ";
      names += reader.model_type;
    }
  }
  return names;
}

std::string_view WhyFamilyRefused(std::string_view model_type) {
  for (const Refused& refused : kRefused) {
    if (refused.model_type == model_type) return refused.why;
  }
  return {};
}

ModelSpec ReadLayeredModel(const ConfigFields& config, const ConfigFields& outer,
                           std::string_view model_type) {
  const LayeredReader& reader = *Find(model_type);
  LayeredFields fields(config);
  ModelSpec model = reader.read(fields);
  config.RefuseUnknownLayers();
  if (HasMtpModule(fields) && !model.mtp_layer) {
    const LayerSpec layer = MtpLayerOf(model);
    // A last layer without attention and state says nothing of the module.
    if (layer.query_heads > 0 || layer.recurrent) model.mtp_layer = layer;
  }
  const bool tied = outer.Flag("tie_word_embeddings", reader.tied_embeddings);
  model.tied_embeddings = config.Flag("tie_word_embeddings", tied);
  return model;
}

}  // namespace twin
