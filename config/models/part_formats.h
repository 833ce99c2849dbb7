// Formats of quantised checkpoints, part by part: the format of quantization_config, and the list
// of modules that stay in 16 bits.
#pragma once

#include <optional>
#include <string>

#include "config/models/config_fields.h"
#include "core/model_spec.h"

namespace twin {

struct PartFormats {
  DType weights = DType::kBf16;  // of all parts that `parts` leaves open
  WeightFormats parts = {};
  std::optional<DType> kv = std::nullopt;  // of the cache, if the checkpoint has one
  std::string note = {};                   // one line on what the formats cannot say; usually empty
};

// The format of the cache that a field names by its algorithm, as ModelOpt does; nullopt if it is
// absent. Throws InputError (data) for others than FP8 and INT8.
std::optional<DType> ReadKvAlgorithm(const ConfigFields& stored, const char* field);

// Reads methods fp8, mxfp4, compressed-tensors and modelopt; nullopt for any other. `stored` is the
// quantization_config of a model of this shape. Throws InputError (data): formats that have no
// DType, modules that are unknown, and lists that leave out some layers or matrices of a part
// alone.
std::optional<PartFormats> ReadPartFormats(const ConfigFields& stored, const ModelSpec& shape);

}  // namespace twin
