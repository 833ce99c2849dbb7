// The modules of a checkpoint that its quantisation leaves in 16 bits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/models/config_fields.h"
#include "core/model_spec.h"

namespace twin {

// Parts of `shape` with a format in `base` that the entries leave in 16 bits get bf16. An entry is
// the name of a module or of one that contains it; with '*', a pattern; behind "re:", a regular
// expression from the start of the name (compressed-tensors, vLLM's should_ignore_layer). Throws
// InputError (data) naming `field` and the entry or part: unknown modules, bad expressions, and
// parts of which some layers, or some but fewer than most matrices, are left out. A part of which
// most matrices are left out has 16 bits, which `note` then says.
void LeaveIn16Bits(const ConfigFields& stored, const char* field,
                   const std::vector<std::string>& entries, const ModelSpec& shape,
                   WeightFormats& formats, std::string& note);

}  // namespace twin
