// Formats of weights that a checkpoint has as it is stored.
#pragma once

#include <string>
#include <string_view>

namespace twin {

// Whether the checkpoint is stored by this method (awq, modelopt_fp4), also under the name of its
// kernels (awq_marlin): such a flag says of the server what it finds out by itself. A config.json
// names its method; otherwise the name of a preset's checkpoint does. `model` as in
// system.model. Throws as ReadNamedModel().
bool IsStoredFormat(const std::string& model, std::string_view method);

}  // namespace twin
