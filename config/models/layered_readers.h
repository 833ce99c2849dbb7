// The readers that layered_config.cc lists, by the kind of their attention.
#pragma once

#include <span>
#include <string_view>

#include "config/models/layered_fields.h"

namespace twin {

struct LayeredReader {
  std::string_view model_type;
  ModelSpec (*read)(LayeredFields&);
  bool tied_embeddings = false;  // if tie_word_embeddings is absent
};

std::span<const LayeredReader> BlockReaders();  // a block of fields for each layer
std::span<const LayeredReader> LatentReaders();
std::span<const LayeredReader> MixtureReaders();
std::span<const LayeredReader> RecurrentReaders();
std::span<const LayeredReader> RoutedReaders();  // mixtures with names of their own
std::span<const LayeredReader> WindowReaders();

}  // namespace twin
