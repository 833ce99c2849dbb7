#include "exec/model/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <numeric>

#include "core/input_error.h"
#include "core/random.h"
#include "exec/model/safetensors_header.h"
#include "tests/unit/exec/model_folder.h"

namespace twin::exec {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ModelFolder;

std::string RefusalOf(const std::string& header, std::uint64_t data_bytes) {
  try {
    ParseSafetensorsHeader(header, data_bytes, "f.safetensors");
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 1);
    return error.what();
  }
  return "accepted";
}

std::string FileRefusal(const std::filesystem::path& path) {
  try {
    const SafetensorsFile file(path);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SafetensorsTest, ReadsBackWhatWasWritten) {
  const std::vector<double> doubles = {1.5, -2};
  const std::vector<std::uint16_t> halves = {0x3C00, 0xC000, 0x0001};  // 1, -2, 2^-24
  const std::vector<std::uint16_t> brains = {0x3F80, 0xC000};          // 1, -2
  const ModelFolder folder("safetensors");
  const auto bytes = [](const auto& values) { return std::as_bytes(std::span(values)); };
  testing::WriteSafetensors(folder.path() / "a", {{"d", StoredType::kF64, {2}, bytes(doubles)},
                                                  {"empty", StoredType::kF32, {0, 7}, {}},
                                                  {"h", StoredType::kF16, {3, 1}, bytes(halves)},
                                                  {"b", StoredType::kBf16, {1, 2}, bytes(brains)}});
  const SafetensorsFile file(folder.path() / "a");
  ASSERT_EQ(file.tensors().size(), 4U);
  EXPECT_EQ(file.Find("nothing"), nullptr);
  std::vector<float> values(2);
  Widen(*file.Find("d"), 0, values);
  EXPECT_THAT(values, ElementsAre(1.5F, -2.0F));
  Widen(*file.Find("b"), 0, values);
  EXPECT_THAT(values, ElementsAre(1.0F, -2.0F));
  Widen(*file.Find("h"), 1, values);
  EXPECT_THAT(values, ElementsAre(-2.0F, 0x1.0p-24F));
  EXPECT_THAT(file.Find("h")->shape, ElementsAre(3, 1));
  EXPECT_EQ(file.Find("empty")->elements(), 0);
}

TEST(SafetensorsTest, WidensEveryHalfExactly) {
  // By value: (-1)^s * 2^(e-15) * (1 + f/1024), and f * 2^-24 where e is 0.
  std::vector<std::uint16_t> halves(65536);
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  std::vector<float> values(halves.size());
  Widen({"h", StoredType::kF16, {65536}, std::as_bytes(std::span(halves))}, 0, values);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const int exponent = (halves[i] >> 10) & 31;
    const double fraction = halves[i] & 1023;
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(values[i]), fraction != 0);
      EXPECT_FALSE(std::isfinite(values[i]));
      continue;
    }
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1 + fraction / 1024, exponent - 15);
    ASSERT_EQ(static_cast<double>(values[i]), i >= 32768 ? -magnitude : magnitude) << i;
  }
}

TEST(SafetensorsTest, ReadsTensorsInTheOrderOfTheirData) {
  const auto entries = ParseSafetensorsHeader(
      R"({"b": {"dtype": "U8", "shape": [3], "data_offsets": [2, 5]}, "__metadata__": {"k": "v"},
          "a": {"dtype": "I16", "shape": [], "data_offsets": [0, 2]}}  )",
      5, "f");
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[1].begin, 2U);
}

TEST(SafetensorsTest, RefusesADamagedHeaderNamingTheTensor) {
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
    return RefusalOf(R"({"t.w": {"dtype": )" + dtype + R"(, "shape": )" + shape +
                         R"(, "data_offsets": )" + offsets + "}}",
                     8);
  };
  EXPECT_EQ(one("\"F32\"", "[2]", "[0, 8]"), "accepted");
  EXPECT_THAT(one("\"F33\"", "[2]", "[0, 8]"),
              AllOf(HasSubstr("f.safetensors: tensor 't.w': unknown dtype \"F33\""),
                    HasSubstr("allowed: F64, F32")));
  EXPECT_THAT(one("4", "[2]", "[0, 8]"), HasSubstr("unknown dtype 4"));
  EXPECT_THAT(one("\"F32\"", "[-2]", "[0, 8]"), HasSubstr("'t.w': shape is [-2]"));
  EXPECT_THAT(one("\"F32\"", "[2.0]", "[0, 8]"), HasSubstr("must be a list of integers >= 0"));
  EXPECT_THAT(one("\"F32\"", "2", "[0, 8]"), HasSubstr("shape is 2"));
  EXPECT_THAT(one("\"F32\"", "[4294967296, 4294967296]", "[0, 0]"), HasSubstr("overflows"));
  EXPECT_THAT(one("\"F32\"", "[3]", "[0, 8]"), HasSubstr("hold 8 bytes, but dtype F32 and shape"));
  EXPECT_THAT(one("\"F32\"", "[2]", "[8, 0]"), HasSubstr("reversed"));
  EXPECT_THAT(one("\"F32\"", "[2]", "[0, 12]"), HasSubstr("beyond the end of the file"));
  EXPECT_THAT(one("\"F32\"", "[2]", "[0]"), HasSubstr("must be [begin, end]"));
  EXPECT_THAT(one("\"F32\"", "[2]", "[0, 1e1]"), HasSubstr("must be [begin, end]"));
  EXPECT_THAT(one("\"F32\"", "[1]", "[0, 4]"), HasSubstr("end at byte 4 of 8"));
  EXPECT_THAT(one("\"F32\"", "[1]", "[4, 8]"), HasSubstr("leave a gap"));
}

TEST(SafetensorsTest, RefusesWhatIsNoHeader) {
  EXPECT_THAT(RefusalOf("{\"a\"", 0), HasSubstr("not valid JSON (byte 5 of it)"));
  EXPECT_THAT(RefusalOf("", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOf("[1]", 0), HasSubstr("no JSON object"));
  EXPECT_THAT(RefusalOf(R"({"a": 3})", 0), HasSubstr("tensor 'a': is 3, must be an object"));
  EXPECT_THAT(RefusalOf(R"({"a": {"dtype": "U8", "shape": [0]}})", 0),
              HasSubstr("data_offsets is missing"));
  EXPECT_THAT(RefusalOf(R"({"__metadata__": {"a": 1}})", 0), HasSubstr("__metadata__"));
  EXPECT_THAT(RefusalOf(std::string(100'000, '['), 0), HasSubstr("nests deeper"));
  const std::string entry = R"({"dtype": "U8", "shape": [0], "data_offsets": [0, 0]})";
  EXPECT_THAT(RefusalOf("{\"a\": " + entry + ", \"b\": " + entry + ", \"a\": " + entry + "}", 0),
              HasSubstr("tensor 'a': the name is in the header twice"));
  EXPECT_THAT(RefusalOf(R"({"a": {"dtype": "U8", "shape": [0], "shape": [0],
                                  "data_offsets": [0, 0]}})",
                        0),
              HasSubstr("tensor 'a': the field 'shape' is there twice"));
}

TEST(SafetensorsTest, RefusesOverlappingRanges) {
  EXPECT_THAT(RefusalOf(R"({"a": {"dtype": "U8", "shape": [6], "data_offsets": [0, 6]},
                            "b": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}})",
                        8),
              HasSubstr("tensor 'b': data_offsets [4, 8] overlap those of 'a'"));
}

TEST(SafetensorsTest, RefusesFilesThatCannotHoldTheirHeader) {
  const ModelFolder folder("short");
  const auto with_length = [&](std::uint64_t length, const std::string& rest) {
    std::string text(8, '\0');
    std::memcpy(text.data(), &length, 8);
    folder.WriteText("f", text + rest);
    return FileRefusal(folder.path() / "f");
  };
  folder.WriteText("empty", "");
  folder.WriteText("seven", "1234567");
  EXPECT_THAT(FileRefusal(folder.path() / "empty"), HasSubstr("of 0 bytes is too short"));
  EXPECT_THAT(FileRefusal(folder.path() / "seven"), HasSubstr("of 7 bytes is too short"));
  EXPECT_THAT(FileRefusal(folder.path() / "absent"), HasSubstr("cannot be opened"));
  EXPECT_THAT(FileRefusal(folder.path()), HasSubstr("is not a file"));
  EXPECT_EQ(with_length(2, "{}"), "accepted");
  EXPECT_THAT(with_length(3, "{}"), HasSubstr("beyond the end of the file of 10 bytes"));
  EXPECT_THAT(with_length(std::numeric_limits<std::uint64_t>::max(), "{}"),
              HasSubstr("header of 18446744073709551615 bytes reaches beyond"));
  EXPECT_THAT(with_length(std::uint64_t{1} << 40, "{}"), HasSubstr("beyond the end"));
}

// A sound file with bytes changed, cut out or put in, mostly in its header.
std::string Mutated(std::string text, Random& random) {
  const std::int64_t changes = random.UniformInt(1, 4);
  for (std::int64_t i = 0; i < changes && !text.empty(); ++i) {
    const auto last = static_cast<std::int64_t>(text.size()) - 1;
    const auto at = static_cast<std::size_t>(
        random.UniformInt(0, random.UnitReal() < 0.8 ? std::min(last, std::int64_t{420}) : last));
    const std::string tokens = "{}[]\",:-0123456789.eEtfnFBIU\\ \n\xff";
    const char byte = random.UnitReal() < 0.5
                          ? static_cast<char>(random.UniformInt(0, 255))
                          : tokens[static_cast<std::size_t>(random.UniformInt(
                                0, static_cast<std::int64_t>(tokens.size()) - 1))];
    switch (random.UniformInt(0, 3)) {
      case 0:
        text.erase(at, static_cast<std::size_t>(random.UniformInt(1, 40)));
        break;
      case 1:
        text.insert(at, 1, byte);
        break;
      default:
        text[at] = byte;
    }
  }
  return text;
}

TEST(SafetensorsTest, SurvivesThousandsOfDamagedFilesWithOneLineEach) {
  testing::TensorSet tensors;
  testing::AddRandom("model.a.weight", {4, 3}, 0, tensors);
  testing::AddRandom("model.b.weight", {5}, 0, tensors);
  testing::AddRandom("model.c.bias", {2, 1, 2}, 0, tensors);
  const std::vector<std::byte> sound = testing::SafetensorsBytes(tensors.Stored());
  const std::string text(reinterpret_cast<const char*>(sound.data()), sound.size());
  const ModelFolder folder("mutated");
  Random random(11, "mutations");
  std::int32_t refused = 0;
  constexpr std::int32_t kFiles = 6000;
  for (std::int32_t i = 0; i < kFiles; ++i) {
    folder.WriteText("f", Mutated(text, random));
    try {
      const SafetensorsFile file(folder.path() / "f");
      // What is accepted must be readable to its last byte.
      for (const StoredTensor& tensor : file.tensors()) {
        if (!IsWidenable(tensor.type)) continue;
        std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
        Widen(tensor, 0, values);
      }
    } catch (const InputError& error) {
      ++refused;
      const std::string line = error.what();
      ASSERT_EQ(line.find('\n'), std::string::npos) << line;
      ASSERT_LT(line.size(), 700U) << line;
      ASSERT_THAT(line, HasSubstr((folder.path() / "f").string()));
    }
  }
  EXPECT_GT(refused, kFiles / 2);
  EXPECT_LT(refused, kFiles);
}

// 100,000 entries took a minute where the time grew with their square.
TEST(SafetensorsTest, TheTimeGrowsWithTheEntriesAndNotWithTheirSquare) {
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i) {
    header += fmt::format(R"({}"t{}":{{"dtype":"F16","shape":[0],"data_offsets":[0,0]}})",
                          i == 0 ? "" : ",", i);
  }
  const std::clock_t begin = std::clock();
  EXPECT_EQ(ParseSafetensorsHeader(header + "}", 0, "f.safetensors").size(), 100'000u);
  EXPECT_LT(std::clock() - begin, 15 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace twin::exec
