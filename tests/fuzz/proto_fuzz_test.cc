// Damaged configs and records: whatever is read, it is either accepted or refused by InputError.
// TWIN_FUZZ_RUNS sets the number of mutations of each kind.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "core/input_error.h"
#include "core/random.h"
#include "run/files/record_file.h"
#include "tests/unit/run/files/random_run.h"

namespace twin {
namespace {

namespace fs = std::filesystem;

int Runs() {
  const char* runs = std::getenv("TWIN_FUZZ_RUNS");
  return runs != nullptr ? std::atoi(runs) : 20'000;
}

constexpr const char* kConfig = R"(schema_version: 1 name: "fuzz" seed: 7
workload {
  requests: 100
  arrivals { kind: gamma rate: 4.5 cv: 2 }
  shape {
    prompt { kind: lognormal mean: 300 sigma: 1.1 max: 4000 }
    output { kind: empirical probabilities: [0, 0.5, 1] values: [1, 20, 300] }
    tenants { weight: 2 priority: -1 }
    tenants { weight: 1 prompt { kind: fixed value: 9 } }
    sessions { turns { kind: zipf exponent: 1.5 max: 8 } think { mean_s: 3 } }
  }
}
policy { vllm_v0 { max_num_seqs: 8 preemption_mode: swap watermark: 0.05 } }
system {
  model: "llama-3-8b" hardware: "h100-sxm" tensor_parallel: 2
  model_shape { layers: 4 kv_dtype: fp8 moe { experts: 0 } }
  memory { rule: vllm_v0 utilization: 0.8 block_size: 32 }
}
cost { linear { base_s: 0.01 per_decode_item_s: 1e-5 } }
slo { ttft_s: 0.5 } metrics { head_share: 0.1 } outputs { perfetto: false }
)";

// Pieces that make a mutation likely to be half right.
const std::vector<std::string> kPieces = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          ":",
                                          "-",
                                          "1e999",
                                          "nan",
                                          "inf",
                                          "\"",
                                          "'",
                                          "#",
                                          "\n",
                                          "seed: 1",
                                          "policy",
                                          "workload {",
                                          "<",
                                          ">",
                                          ",",
                                          ";",
                                          "0x7fffffff",
                                          "99999999999999999999",
                                          "true",
                                          "\\377",
                                          "orca {}",
                                          "base: \"x\"",
                                          "kind: poisson",
                                          "vllm_v1 { release: v0_15_1 }",
                                          "-0",
                                          "1e-320"};

std::string Mutated(std::string text, Random& random, bool with_pieces) {
  const auto below = [&random](std::size_t n) {
    return static_cast<std::size_t>(random.UniformInt(0, static_cast<std::int64_t>(n) - 1));
  };
  for (std::int64_t n = random.UniformInt(1, 4); n > 0 && !text.empty(); --n) {
    const std::size_t at = below(text.size());
    switch (random.UniformInt(0, with_pieces ? 5 : 4)) {
      case 0:
        text[at] = static_cast<char>(random.UniformInt(0, 255));
        break;
      case 1:
        text.erase(at, 1 + below(16));
        break;
      case 2:
        text.insert(at, text.substr(below(text.size()), 1 + below(40)));
        break;
      case 3:
        text[at] = static_cast<char>(text[at] ^ (1 << random.UniformInt(0, 7)));
        break;
      case 4:
        text.resize(at);
        break;
      default:
        text.insert(at, " " + kPieces[below(kPieces.size())] + " ");
    }
  }
  return text;
}

// The error must be one line that names the input.
void ExpectOneLine(const InputError& error, const std::string& name) {
  const std::string line = error.what();
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  EXPECT_NE(line.find(name), std::string::npos) << line;
}

TEST(ProtoFuzzTest, ConfigsAreReadOrRefused) {
  Random random(1, "configs");
  int refused = 0;
  for (int i = 0; i < Runs(); ++i) {
    const std::string text = Mutated(kConfig, random, true);
    try {
      const ExperimentConfig config = ParseExperiment(text, "fuzz.textproto", "/");
      if (i % 16 == 0) {
        const std::string resolved = WriteResolved(config);
        EXPECT_EQ(WriteResolved(ParseExperiment(resolved, "resolved", "/")), resolved);
      }
    } catch (const InputError& error) {
      ++refused;
      ExpectOneLine(error, "fuzz.textproto");
    }
  }
  EXPECT_GT(refused, Runs() / 2);
  EXPECT_LT(refused, Runs());
}

TEST(ProtoFuzzTest, OverridesAreTakenOrRefused) {
  const fs::path file =
      fs::temp_directory_path() / ("proto_fuzz_" + std::to_string(::getpid()) + ".textproto");
  std::ofstream(file) << kConfig;
  const std::vector<std::string> sane = {"policy.vllm_v1.max_num_seqs=64",
                                         "policy=orca {max_bs: 3}",
                                         "workload.shape.tenants[1].weight=3",
                                         "workload.shape.tenants+={weight: 4}",
                                         "workload.shape.output.values=[1, 2, 30]",
                                         "system.model=llama-3-8b",
                                         "seed=18446744073709551615"};
  Random random(2, "overrides");
  int refused = 0;
  for (int i = 0; i < Runs() / 4; ++i) {
    const auto pick = static_cast<std::size_t>(random.UniformInt(0, 6));
    const std::vector<std::string> overrides = {Mutated(sane[pick], random, true)};
    try {
      (void)ReadExperiment(file, overrides);
    } catch (const InputError& error) {
      ++refused;
      ExpectOneLine(error, "");
    }
  }
  fs::remove(file);
  EXPECT_GT(refused, 0);
}

std::string FileBytes(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool ReadIsRefused(const fs::path& file) {
  try {
    RecordReader reader(file);
    Instant instant;
    while (reader.NextInstant(instant)) {
      while (reader.NextPlan() != nullptr) {
      }
    }
  } catch (const InputError& error) {
    ExpectOneLine(error, file.filename());
    return true;
  }
  return false;
}

TEST(ProtoFuzzTest, RecordsAreReadOrRefused) {
  const fs::path file =
      fs::temp_directory_path() / ("proto_fuzz_" + std::to_string(::getpid()) + ".pb");
  Random random(3, "records");
  int refused = 0;
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    RecordWriter writer(file, RecordHeader{}, compression);
    RandomRun(5).TellTo(writer, 12);
    writer.Finish();
    const std::string bytes = FileBytes(file);
    for (int i = 0; i < Runs() / 2; ++i) {
      fs::remove(file);  // file systems write a shortened file to the disk at once
      std::ofstream(file, std::ios::binary) << Mutated(bytes, random, false);
      refused += ReadIsRefused(file) ? 1 : 0;
    }
  }
  fs::remove(file);
  EXPECT_GT(refused, Runs() / 2);
}

// A record's frames with right lengths and checksums, but damaged content: what only the decoders
// can refuse.
std::string FrameOf(const std::string& content) {
  std::string frame;
  for (std::size_t size = content.size(); true; size >>= 7) {
    const bool more = size >= 0x80;
    frame += static_cast<char>((size & 0x7f) | (more ? 0x80 : 0));
    if (!more) break;
  }
  const auto checksum = static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
  for (int shift = 0; shift < 32; shift += 8) {
    frame += static_cast<char>((checksum >> shift) & 0xff);
  }
  return frame + content;
}

std::vector<std::string> FramesOf(const std::string& bytes) {
  std::vector<std::string> contents;
  std::size_t at = 0;
  while (at < bytes.size()) {
    std::size_t size = 0;
    for (int shift = 0; true; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes[at++]);
      size |= static_cast<std::size_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    contents.push_back(bytes.substr(at + 4, size));
    at += 4 + size;
  }
  return contents;
}

TEST(ProtoFuzzTest, DamagedFramesWithRightChecksumsAreReadOrRefused) {
  const fs::path file =
      fs::temp_directory_path() / ("proto_fuzz_" + std::to_string(::getpid()) + "_frames.pb");
  RecordWriter writer(file, RecordHeader{}, Compression::kNone);
  RandomRun(5).TellTo(writer, 12);
  writer.Finish();
  const std::vector<std::string> contents = FramesOf(FileBytes(file));
  ASSERT_GT(contents.size(), 13u);
  Random random(4, "frames");
  int refused = 0;
  for (int i = 0; i < Runs(); ++i) {
    const auto damaged = static_cast<std::size_t>(
        random.UniformInt(0, static_cast<std::int64_t>(contents.size()) - 1));
    std::string bytes;
    for (std::size_t f = 0; f < contents.size(); ++f) {
      bytes += FrameOf(f == damaged ? Mutated(contents[f], random, false) : contents[f]);
    }
    fs::remove(file);
    std::ofstream(file, std::ios::binary) << bytes;
    refused += ReadIsRefused(file) ? 1 : 0;
  }
  fs::remove(file);
  EXPECT_GT(refused, Runs() / 2);
}

}  // namespace
}  // namespace twin
