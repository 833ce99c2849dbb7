#include "kernels/cpu_features.h"

#include <array>
#include <utility>

namespace twin::kernels {

std::string Describe(const CpuFeatures& cpu) {
  std::string text = cpu.model.empty() ? "unknown CPU" : cpu.model;
  text +=
      ", " + std::to_string(cpu.usable_cores) + (cpu.usable_cores == 1 ? " core: " : " cores: ");
  const std::array<std::pair<bool, const char*>, 4> sets = {{{cpu.avx2_fma, "AVX2+FMA"},
                                                             {cpu.avx512f, "AVX-512F"},
                                                             {cpu.avx512_bf16, "AVX-512 BF16"},
                                                             {cpu.avx512_vnni, "AVX-512 VNNI"}}};
  bool is_first = true;
  for (const auto& [offered, name] : sets) {
    if (!offered) continue;
    text += (is_first ? "" : ", ") + std::string(name);
    is_first = false;
  }
  return is_first ? text + "no vector extension that kernels use" : text;
}

}  // namespace twin::kernels
