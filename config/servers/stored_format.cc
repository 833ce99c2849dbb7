#include "config/servers/stored_format.h"

#include <algorithm>
#include <utility>

#include "config/models/named_model.h"
#include "core/dtype.h"
#include "core/letter_case.h"

namespace twin {
namespace {

// Words of servers for the formats of checkpoints whose names say them.
constexpr std::pair<std::string_view, DType> kMethods[] = {{"fp8", DType::kFp8Block},
                                                           {"modelopt", DType::kFp8},
                                                           {"modelopt_fp4", DType::kNvfp4},
                                                           {"nvfp4", DType::kNvfp4},
                                                           {"mxfp4", DType::kMxfp4},
                                                           {"awq", DType::kInt4},
                                                           {"gptq", DType::kInt4},
                                                           {"compressed-tensors", DType::kInt4},
                                                           {"compressed-tensors", DType::kFp8}};

bool HasWeightsIn(const ModelSpec& model, DType format) {
  return model.weight_dtype == format || model.formats.experts == format ||
         model.formats.dense == format;
}

}  // namespace

bool IsStoredFormat(const std::string& model, std::string_view method) {
  constexpr std::string_view kKernels = "_marlin";
  if (method.ends_with(kKernels)) method.remove_suffix(kKernels.size());
  // With a format for all weights, a stored one that is not modelled is no error here.
  const ModelConfig named = ReadNamedModel(model, true);
  if (!named.quantization.empty()) return EqualsIgnoringSeparators(named.quantization, method);
  return std::ranges::any_of(kMethods, [&](const auto& known) {
    return EqualsIgnoringSeparators(known.first, method) && HasWeightsIn(named.shape, known.second);
  });
}

}  // namespace twin
