#include "core/nearest_names.h"

#include <gtest/gtest.h>

#include <array>

namespace twin {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"gpt2", "llama-2-7b", "llama-3-8b",
                                                    "llama-3-70b"};

TEST(NearestNamesTest, PutsTheFewestEditsFirst) {
  // "llama-3-7b": one replacement to llama-2-7b and to llama-3-8b, one insertion to llama-3-70b.
  EXPECT_EQ(NearestNames("llama-3-7b", kNames), "llama-2-7b, llama-3-8b, llama-3-70b");
  // One insertion to llama-3-70b, two replacements to each of the others.
  EXPECT_EQ(NearestNames("llama-3-70", kNames), "llama-3-70b, llama-2-7b, llama-3-8b");
}

TEST(NearestNamesTest, IgnoresCase) {
  EXPECT_TRUE(NearestNames("LLAMA-3-8B", kNames).starts_with("llama-3-8b, "));
}

// "H100" used to be answered with b200, at two edits, before h100-sxm, at four.
TEST(NearestNamesTest, NamesThatBeginAsAskedComeFirst) {
  constexpr std::array<std::string_view, 4> kDevices = {"b200", "a30", "h100-sxm", "h100-pcie"};
  EXPECT_EQ(NearestNames("H100", kDevices), "h100-sxm, h100-pcie, b200");
}

TEST(NearestNamesTest, IsEmptyWithoutNames) { EXPECT_EQ(NearestNames("x", {}), ""); }

}  // namespace
}  // namespace twin
