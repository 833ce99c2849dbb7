// Profiles of devices: embedded ones, folders, and files that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "config/hardware_file.h"
#include "config/profile_folder.h"
#include "core/input_error.h"
#include "tests/support/gzip.h"
#include "tests/support/unique_name.h"

namespace twin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class DeviceProfileTest : public ::testing::Test {
 protected:
  DeviceProfileTest() { std::filesystem::create_directories(folder_); }
  ~DeviceProfileTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }

  std::string Refusal() const {
    try {
      ReadProfileFolder(folder_);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / testing::UniqueName("device_profile_test");
};

TEST_F(DeviceProfileTest, EveryEmbeddedProfileBelongsToADataSheetAndEqualsItsFolder) {
  EXPECT_FALSE(ProfilePresetNames().empty());
  const std::filesystem::path shipped =
      std::filesystem::path(TWIN_SOURCE_DIR) / "sim/devices/profiles";
  for (const std::string_view name : ProfilePresetNames()) {
    EXPECT_EQ(HardwarePreset(name).name, name);
    sim::DeviceProfile of_folder = ReadProfileFolder(shipped / name);
    // Operations of a neighbour.
    if (name == "rtx-pro-6000-server") of_folder.operations = ProfilePreset("l40s").operations;
    EXPECT_EQ(ProfilePreset(name), of_folder) << name;
  }
}

std::string ShippedSheet(std::string_view name) {
  std::ifstream in(std::string(TWIN_SOURCE_DIR) + "/sim/devices/hardware/" + std::string(name) +
                   ".textproto");
  return {std::istreambuf_iterator<char>(in), {}};
}

// Defaults are for sheets of users: a shipped one that leaves a number out would take it silently.
// Dataflow machines have no kernels.
TEST(HardwareFileTest, EveryShippedDataSheetStatesWhatKernelsAchieve) {
  for (const std::string_view name : HardwarePresetNames()) {
    if (HardwarePreset(name).dataflow) continue;
    const std::string text = ShippedSheet(name);
    for (const char* field :
         {"gemm_flops_fraction", "gemm_bandwidth_fraction", "attention_flops_fraction",
          "attention_bandwidth_fraction", "elementwise_bandwidth_fraction",
          "link_bandwidth_fraction", "pcie_bandwidth_fraction", "gemm_latency_s",
          "attention_latency_s", "attention_per_request_s", "elementwise_latency_s"}) {
      EXPECT_THAT(text, HasSubstr(std::string("\n") + field + ": ")) << name;
    }
  }
}

// The name on the box is more than the driver reports: 24 GB of an L4 are 23,034 MiB.
TEST(HardwareFileTest, EveryShippedMemoryIsWhatADriverReportedOrSaysThatNobodyMeasuredIt) {
  const std::regex measured("\n# Memory: ([0-9,]+) MiB by [^\n(]+ \\([^\n]+\\)\\.\nmemory_bytes: ");
  const std::regex assumed("\n# Memory: not measured: [^\n]+\\.\nmemory_bytes: ");
  std::vector<std::string_view> unmeasured;
  for (const std::string_view name : HardwarePresetNames()) {
    const std::string text = ShippedSheet(name);
    std::smatch found;
    if (!std::regex_search(text, found, measured)) {
      EXPECT_TRUE(std::regex_search(text, assumed)) << name;
      unmeasured.push_back(name);
      continue;
    }
    std::string mebibytes = found[1];
    std::erase(mebibytes, ',');
    EXPECT_EQ(HardwarePreset(name).memory_bytes, std::stoll(mebibytes) << 20) << name;
  }
  EXPECT_THAT(unmeasured,
              ElementsAre("ascend-910c-die", "cpu-generic", "lp30", "lpu-v1", "lpu-v1-2024"));
}

// nvidia-smi's totals: github.com/modal-labs/modal-client/pull/2797.
TEST(HardwareFileTest, AnL4HasNeither24GbNor24GibOfMemory) {
  EXPECT_EQ(HardwarePreset("l4").memory_bytes, 24'152'899'584);
  EXPECT_EQ(HardwarePreset("a10").memory_bytes, 24'146'608'128);
  EXPECT_EQ(HardwarePreset("h100-sxm").memory_bytes, 85'520'809'984);
  EXPECT_EQ(HardwarePreset("l40s").memory_bytes, 48'305'799'168);
}

TEST(HardwareFileTest, EverySystemOfAiconfiguratorHasADataSheet) {
  for (const char* system :
       {"a100_pcie", "a100_sxm", "a30", "b200_sxm", "b300_sxm", "b60", "gb200", "gb300",
        "h100_pcie", "h100_sxm", "h200_sxm", "l4", "l40s", "rtx_pro_6000_server"}) {
    const HardwareSpec spec = HardwareFromNameOrFile(system);
    EXPECT_EQ(spec.name, PresetOfAiconfigurator(system));
    EXPECT_GT(spec.sm_count, 0) << system;
    EXPECT_GT(spec.l2_bytes, 0) << system;
  }
  EXPECT_EQ(PresetOfAiconfigurator("h100-sxm"), "");
}

// Names as drivers, Vidur, LLMServingSim and recorded runs give them.
TEST(HardwareFileTest, DevicesMayBeCalledAsOthersCallThem) {
  EXPECT_EQ(HardwareFromNameOrFile("L40S").name, "l40s");
  EXPECT_EQ(HardwareFromNameOrFile("RTX4090").name, "rtx-4090");
  EXPECT_EQ(HardwareFromNameOrFile("NVIDIA GeForce RTX 4090").name, "rtx-4090");
  EXPECT_EQ(HardwareFromNameOrFile("RTXPRO6000").name, "rtx-pro-6000-server");
  EXPECT_EQ(HardwareFromNameOrFile("NVIDIA H100 80GB HBM3").name, "h100-sxm");
  EXPECT_EQ(HardwareFromNameOrFile("H100-SXM-80GB").name, "h100-sxm");
  EXPECT_EQ(HardwareFromNameOrFile("NVIDIA H100 PCIe").name, "h100-pcie");
  EXPECT_EQ(HardwareFromNameOrFile("A100-SXM4-80GB").name, "a100-80gb-sxm");
  EXPECT_EQ(HardwareFromNameOrFile("NVIDIA H200").name, "h200-sxm");
  EXPECT_EQ(HardwareFromNameOrFile("NVIDIA A40").name, "a40");
  EXPECT_EQ(HardwareFromNameOrFile("Tesla T4").name, "t4");
  EXPECT_EQ(HardwareFromNameOrFile("Tesla V100-SXM2-32GB").name, "v100-32gb-sxm");
  EXPECT_EQ(HardwareFromNameOrFile("V100-PCIE-16GB").name, "v100-16gb-pcie");
  EXPECT_EQ(HardwareFromNameOrFile("NVIDIA RTX A6000").name, "rtx-a6000");
  EXPECT_EQ(HardwareFromNameOrFile("NVIDIA GH200 480GB").name, "gh200-96gb");
  EXPECT_EQ(HardwareFromNameOrFile("NVIDIA H100 NVL").name, "h100-nvl");
}

// Lanes, operations of the tensor cores per cycle, and clocks of the chips: white papers of Volta,
// Turing, GA102, Ada and Blackwell. GeForce cards and the L40 add up in fp32 at half the rate. A
// peak that counts sparsity, or a wrong SM count, is off by 2.
struct Chip {
  const char* name;
  int lanes;
  double boost_ghz;
  int tensor_operations;
};

class ChipTest : public ::testing::TestWithParam<Chip> {};

TEST_P(ChipTest, PeaksAreDenseAndFollowFromUnitsAndClock) {
  const auto [name, lanes, boost_ghz, tensor_operations] = GetParam();
  const HardwareSpec spec = HardwarePreset(name);
  const double cycles = 1e9 * boost_ghz * spec.sm_count;
  EXPECT_NEAR(spec.peak_fp32_flops / (2 * lanes * cycles), 1, 0.01);
  EXPECT_NEAR(spec.peak_bf16_flops / (tensor_operations * cycles), 1, 0.01);
}

INSTANTIATE_TEST_SUITE_P(
    Sheets, ChipTest,
    ::testing::Values(Chip{"v100-16gb-sxm", 64, 1.53, 1024}, Chip{"v100-32gb-sxm", 64, 1.53, 1024},
                      Chip{"v100-16gb-pcie", 64, 1.38, 1024},
                      Chip{"v100-32gb-pcie", 64, 1.38, 1024}, Chip{"t4", 64, 1.59, 1024},
                      Chip{"a10", 128, 1.695, 1024}, Chip{"a40", 128, 1.74, 1024},
                      Chip{"rtx-a6000", 128, 1.8, 1024}, Chip{"rtx-3090", 128, 1.695, 512},
                      Chip{"l40", 128, 2.49, 512}, Chip{"rtx-4090", 128, 2.52, 512},
                      Chip{"rtx-5090", 128, 2.407, 512}),
    [](const auto& test) {
      std::string name = test.param.name;
      std::ranges::replace(name, '-', '_');
      return name;
    });

TEST(HardwareFileTest, ANameThatFitsTwoDevicesIsRefusedWithBoth) {
  EXPECT_THAT([] { HardwareFromNameOrFile("H100"); },
              ThrowsMessage<InputError>(HasSubstr("nearest h100-nvl, h100-pcie, h100-sxm")));
  EXPECT_THAT([] { HardwareFromNameOrFile("L4000"); },
              ThrowsMessage<InputError>(HasSubstr("no device \"L4000\"")));
}

TEST_F(DeviceProfileTest, ADeviceWithoutProfileHasAnEmptyOne) {
  EXPECT_EQ(ProfilePreset("no-such-device"), sim::DeviceProfile{});
}

TEST_F(DeviceProfileTest, AMissingFileLeavesItsPartEmpty) {
  Write("moe.textproto", "# nothing\n");
  EXPECT_EQ(ReadProfileFolder(folder_), sim::DeviceProfile{});
}

TEST_F(DeviceProfileTest, AFolderWithoutAnyPartIsRefused) {
  EXPECT_NE(Refusal().find("gemm.textproto, moe.textproto"), std::string::npos) << Refusal();
}

TEST_F(DeviceProfileTest, AnUnknownFieldIsRefusedWithFileAndLine) {
  Write("gemm.textproto", "\nno_such_field: 1\n");
  EXPECT_NE(Refusal().find("gemm.textproto:2"), std::string::npos) << Refusal();
}

TEST_F(DeviceProfileTest, ACompressedFileReadsAsAPlainOne) {
  sim::DeviceProfile profile;
  profile.gemm.fits.emplace_back().log_sd = 0.25;
  const std::string text = WriteProfilePart(profile, ProfilePart::kGemm);
  Write("gemm.textproto", text);
  const sim::DeviceProfile plain = ReadProfileFolder(folder_);
  std::filesystem::remove(folder_ / "gemm.textproto");
  Write("gemm.textproto.gz", testing::Gzip(text));
  EXPECT_EQ(ReadProfileFolder(folder_), plain);
}

TEST_F(DeviceProfileTest, DamagedAndDoubleFilesAreRefused) {
  const std::string compressed = testing::Gzip("no_such_field: 1\n");
  Write("gemm.textproto.gz", compressed);
  EXPECT_NE(Refusal().find("gemm.textproto.gz:1"), std::string::npos) << Refusal();
  Write("gemm.textproto.gz", compressed.substr(0, compressed.size() - 1));
  EXPECT_NE(Refusal().find("gemm.textproto.gz: the gzip data end early"), std::string::npos)
      << Refusal();
  Write("gemm.textproto", "");
  EXPECT_NE(Refusal().find("gemm.textproto.gz: lies beside"), std::string::npos) << Refusal();
}

TEST_F(DeviceProfileTest, OnlyThePartsThatAreAskedForAreParsed) {
  Write("gemm.textproto", "no_such_field: 1\n");
  EXPECT_NO_THROW(ReadProfileFolder(folder_, {ProfilePart::kMoe}));
}

}  // namespace
}  // namespace twin
