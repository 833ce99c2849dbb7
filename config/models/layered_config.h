// Readers of config.json for families whose layers differ or have other than plain attention.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/models/layered_fields.h"

namespace twin {

struct LayeredReader {
  std::string_view model_type;
  ModelSpec (*read)(LayeredFields&);
  bool tied_embeddings = false;  // if tie_word_embeddings is absent
};

// The readers of all families, by the kind of their attention or MLP.
std::span<const LayeredReader> LatentReaders();
std::span<const LayeredReader> MixtureReaders();
std::span<const LayeredReader> RecurrentReaders();
std::span<const LayeredReader> DenseReaders();

bool IsLayeredFamily(std::string_view model_type);
std::string LayeredFamilyNames();

// The reason for which a known family is refused, with a way out; empty for other families.
std::string_view WhyFamilyRefused(std::string_view model_type);

// The shape of a model of `model_type`, in bf16 and without a name. `outer` has
// tie_word_embeddings if `config` has none. Throws InputError (data): a missing or damaged field,
// and a field that changes the computation but is unknown for the family.
// REQUIRES: IsLayeredFamily(model_type).
ModelSpec ReadLayeredModel(const ConfigFields& config, const ConfigFields& outer,
                           std::string_view model_type);

}  // namespace twin
