#include "core/model_options.h"

namespace twin {

std::string_view Name(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::kGeneric:
      return "generic";
    case AttentionKernel::kFa2:
      return "fa2";
    case AttentionKernel::kFa3:
      return "fa3";
    case AttentionKernel::kCudaCore:
      return "cuda_core";
  }
  return "";
}

}  // namespace twin
