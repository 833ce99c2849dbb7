// Profiles of devices: embedded ones, folders, and files that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/input_error.h"
#include "proto/hardware_file.h"
#include "proto/profile_file.h"
#include "tests/support/unique_name.h"

namespace twin {
namespace {

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

TEST_F(DeviceProfileTest, EveryEmbeddedProfileBelongsToADataSheetAndCanBeRead) {
  EXPECT_FALSE(ProfilePresetNames().empty());
  for (const std::string_view name : ProfilePresetNames()) {
    EXPECT_EQ(HardwarePreset(name).name, name);
    EXPECT_NO_THROW(ProfilePreset(name)) << name;
  }
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
}

TEST(HardwareFileTest, ANameThatFitsTwoDevicesIsRefusedWithBoth) {
  EXPECT_THAT([] { HardwareFromNameOrFile("H100"); },
              ThrowsMessage<InputError>(HasSubstr("nearest h100-pcie, h100-sxm")));
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

TEST_F(DeviceProfileTest, OnlyThePartsThatAreAskedForAreParsed) {
  Write("gemm.textproto", "no_such_field: 1\n");
  EXPECT_NO_THROW(ReadProfileFolder(folder_, {ProfilePart::kMoe}));
}

}  // namespace
}  // namespace twin
