#include "kernels/cpu_features.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace twin::kernels {
namespace {

// What the kernel says of the first processor's `key`, or nothing where there is no such file.
std::set<std::string> KernelWords(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) flags.insert(word);
    break;
  }
  return flags;
}

TEST(CpuFeaturesTest, AgreeWithTheKernel) {
  const std::set<std::string> flags = KernelWords("flags");
  if (flags.empty()) GTEST_SKIP() << "no flags in /proc/cpuinfo";
  const CpuFeatures cpu = DetectCpu();
  EXPECT_EQ(cpu.avx2_fma, flags.contains("avx2") && flags.contains("fma"));
  EXPECT_EQ(cpu.avx512f, flags.contains("avx512f"));
  EXPECT_EQ(cpu.avx512_bf16, flags.contains("avx512_bf16") && flags.contains("avx512bw"));
  EXPECT_EQ(cpu.avx512_vnni, flags.contains("avx512_vnni"));
  EXPECT_EQ(cpu.amd, KernelWords("vendor_id").contains("AuthenticAMD"));
}

TEST(CpuFeaturesTest, ThereIsAtLeastOneCoreAndTheAnswerIsStable) {
  EXPECT_GE(DetectCpu().usable_cores, 1);
  EXPECT_EQ(DetectCpu(), DetectCpu());
}

TEST(CpuFeaturesTest, DescribesWhatIsOffered) {
  EXPECT_EQ(Describe({.model = "AMD EPYC", .usable_cores = 2, .avx2_fma = true, .avx512f = true}),
            "AMD EPYC, 2 cores: AVX2+FMA, AVX-512F");
  EXPECT_EQ(Describe({.model = "", .usable_cores = 1}),
            "unknown CPU, 1 core: no vector extension that kernels use");
}

}  // namespace
}  // namespace twin::kernels
