// Names and formulas of the activation functions that MLPs use.
#pragma once

#include <cstdint>

namespace twin {

enum class Activation : std::uint8_t {
  kSilu,      // z / (1 + e^-z)
  kGelu,      // z * Phi(z), with the error function
  kGeluTanh,  // z / 2 * (1 + tanh(sqrt(2 / pi) * (z + 0.044715 z^3))); "gelu_new"
  kRelu,      // max(z, 0)
};

}  // namespace twin
