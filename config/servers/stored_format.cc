#include "config/servers/stored_format.h"

#include "config/models/named_model.h"
#include "core/letter_case.h"

namespace twin {

bool IsStoredFormat(const std::string& model, std::string_view method) {
  constexpr std::string_view kKernels = "_marlin";
  if (method.ends_with(kKernels)) method.remove_suffix(kKernels.size());
  // With a format for all weights, a stored one that is not modelled is no error here.
  const std::string stored = ReadNamedModel(model, true).quantization;
  return !stored.empty() && EqualsIgnoringSeparators(stored, method);
}

}  // namespace twin
