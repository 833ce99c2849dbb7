#include "kernels/cuda/gemm_algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/input_error.h"

namespace twin::kernels::cuda {
namespace {

using testing::HasSubstr;
using testing::Pointee;
using testing::ThrowsMessage;

constexpr DeviceGemmShape kShape{.tokens = 8, .outputs = 4096, .inputs = 14336};
constexpr DeviceGemmShape kLogits{
    .tokens = 1, .outputs = 128256, .inputs = 4096, .output_dtype = DType::kFp32};
constexpr GemmAlgorithm kMeasured{.blob = {1, 0xFFFFFFFFFFFFFFFF, 0, 7, 0, 0, 0, 0x80000000},
                                  .microseconds = 41.25};
constexpr GemmAlgorithm kSkinny{.skinny = true, .microseconds = 12.5};

class GemmAlgorithmFileTest : public testing::Test {
 protected:
  GemmAlgorithmFileTest() {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    path_ = std::filesystem::path(testing::TempDir()) / (name + "_algorithms.txt");
    std::filesystem::remove(path_);
  }
  [[nodiscard]] std::string Text() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  void Write(const std::string& text) const { std::ofstream(path_) << text; }
  // A file that measured kShape, with another text in place of `from`.
  void WriteMeasured(const std::string& from, const std::string& to) {
    GemmAlgorithmFile file = Open();
    file.Set(kShape, kMeasured);
    file.Save();
    std::string text = Text();
    text.replace(text.find(from), from.size(), to);
    Write(text);
  }
  GemmAlgorithmFile Open() const { return {path_, "NVIDIA H200", "13.1.0"}; }

  std::filesystem::path path_;
};

TEST_F(GemmAlgorithmFileTest, KeepsWhatWasSet) {
  GemmAlgorithmFile file = Open();
  file.Set(kShape, kMeasured);
  file.Set(kLogits, kSkinny);
  file.Save();
  const GemmAlgorithmFile again = Open();
  EXPECT_THAT(again.Find(kShape), Pointee(kMeasured));
  EXPECT_THAT(again.Find(kLogits), Pointee(kSkinny));
  DeviceGemmShape other = kShape;
  other.output_dtype = DType::kFp32;
  EXPECT_EQ(again.Find(other), nullptr);
}

TEST_F(GemmAlgorithmFileTest, EachAccumulationOfFp8HasItsOwnAlgorithm) {
  DeviceGemmShape accurate = kShape;
  accurate.input_dtype = DType::kFp8;
  DeviceGemmShape fast = accurate;
  fast.accumulation = Fp8Accumulation::kFast;
  GemmAlgorithmFile file = Open();
  file.Set(fast, kMeasured);
  file.Save();
  EXPECT_EQ(Open().Find(accurate), nullptr);
  EXPECT_THAT(Open().Find(fast), Pointee(kMeasured));
  file.Set(accurate, kSkinny);
  file.Save();
  EXPECT_THAT(Open().Find(accurate), Pointee(kSkinny));
  EXPECT_THAT(Open().Find(fast), Pointee(kMeasured));
}

TEST_F(GemmAlgorithmFileTest, OfTheFirstFormatIsEmptyAndReplaced) {
  Write("# twinserve GEMM algorithms, format 1\nlines whose algorithms are no longer allowed\n");
  GemmAlgorithmFile file = Open();
  EXPECT_EQ(file.Find(kShape), nullptr);
  file.Set(kShape, kMeasured);
  file.Save();
  EXPECT_THAT(Open().Find(kShape), Pointee(kMeasured));
}

// Format 2 had the same lines of products, and none of attention.
TEST_F(GemmAlgorithmFileTest, OfTheSecondFormatKeepsItsProducts) {
  WriteMeasured("format 3", "format 2");
  EXPECT_THAT(Open().Find(kShape), Pointee(kMeasured));
}

TEST_F(GemmAlgorithmFileTest, KeepsTimesOfAttentionBesideTheProducts) {
  const DecodeTimes times = {
      {{"bf16:32/8x128:16:0", 8, 1024, {AttentionKernel::kFa2, 0}}, 9.5},
      {{"bf16:32/8x128:16:0", 8, 1024, {AttentionKernel::kCudaCore, 1}}, 12.25}};
  GemmAlgorithmFile file = Open();
  file.Set(kShape, kMeasured);
  file.decodes() = times;
  file.Save();
  GemmAlgorithmFile again = Open();
  EXPECT_EQ(again.decodes(), times);
  EXPECT_THAT(again.Find(kShape), Pointee(kMeasured));
  // Of another device: not used, and kept.
  GemmAlgorithmFile other(path_, "NVIDIA H100", "13.1.0");
  EXPECT_TRUE(other.decodes().empty());
  other.Save();
  EXPECT_EQ(Open().decodes(), times);
}

// No version of this program has a way of three waves.
TEST_F(GemmAlgorithmFileTest, KeepsWaysOfOtherVersionsAndDoesNotUseThem) {
  GemmAlgorithmFile other = Open();
  other.decodes() = {{{"bf16:32/8x128:16:0", 8, 1024, {AttentionKernel::kFa2, 3}}, 9.5}};
  other.Save();
  GemmAlgorithmFile file = Open();
  EXPECT_TRUE(file.decodes().empty());
  file.Save();
  EXPECT_THAT(Text(), HasSubstr("\tfa2 3 waves\t"));
}

TEST_F(GemmAlgorithmFileTest, OfNoPathIsEmptyAndSavesNothing) {
  GemmAlgorithmFile file("", "NVIDIA H200", "13.1.0");
  file.Set(kShape, kMeasured);
  file.Save();
  EXPECT_THAT(file.Find(kShape), Pointee(kMeasured));
}

TEST_F(GemmAlgorithmFileTest, IgnoresAndKeepsLinesOfOtherDevicesAndVersions) {
  for (const auto& [device, version] :
       {std::pair("NVIDIA H100", "13.1.0"), std::pair("NVIDIA H200", "13.2.0")}) {
    GemmAlgorithmFile other(path_, device, version);
    other.Set(kShape, kMeasured);
    other.Save();
  }
  GemmAlgorithmFile file = Open();
  EXPECT_EQ(file.Find(kShape), nullptr);
  file.Set(kShape, kSkinny);
  file.Save();
  EXPECT_THAT(GemmAlgorithmFile(path_, "NVIDIA H100", "13.1.0").Find(kShape), Pointee(kMeasured));
  EXPECT_THAT(GemmAlgorithmFile(path_, "NVIDIA H200", "13.2.0").Find(kShape), Pointee(kMeasured));
  EXPECT_THAT(Open().Find(kShape), Pointee(kSkinny));
}

// One bit of each byte, and every shorter file that does not end at a line.
TEST_F(GemmAlgorithmFileTest, RefusesEveryDamage) {
  GemmAlgorithmFile file = Open();
  file.Set(kShape, kMeasured);
  file.Set(kLogits, kSkinny);
  file.decodes() = {{{"bf16:32/8x128:16:0", 8, 1024, {AttentionKernel::kFa2, 0}}, 9.5}};
  file.Save();
  const std::string whole = Text();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    Write(damaged);
    EXPECT_THROW(Open(), InputError) << "byte " << i;
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // Without the last line's end the line is still whole.
    if (whole[size] == '\n' || (size > 0 && whole[size - 1] == '\n')) continue;
    Write(whole.substr(0, size));
    EXPECT_THROW(Open(), InputError) << "size " << size;
  }
}

TEST_F(GemmAlgorithmFileTest, NamesTheLineAndTheWayOut) {
  WriteMeasured("14336", "14337");
  EXPECT_THAT([&] { Open(); },
              ThrowsMessage<InputError>(path_.string() +
                                        ":2: is damaged: its hash does not fit; remove the file "
                                        "and tune again"));
  Write("something else\n");
  EXPECT_THAT([&] { Open(); },
              ThrowsMessage<InputError>(HasSubstr(path_.string() + ":1: must be")));
}

TEST_F(GemmAlgorithmFileTest, SaysWhenItCannotBeWritten) {
  GemmAlgorithmFile file(path_ / "below" / "a" / "file", "NVIDIA H200", "13.1.0");
  Write("in the way");
  EXPECT_THAT([&] { file.Save(); }, ThrowsMessage<InputError>(HasSubstr("cannot be written")));
}

}  // namespace
}  // namespace twin::kernels::cuda
