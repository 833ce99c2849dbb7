#include "apps/predict/operation_predictor.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/devices/operations/attention_model.h"
#include "sim/devices/operations/gemm_model.h"

namespace twin::run {
namespace {

using LibraryWords = std::vector<std::pair<std::string_view, sim::KernelLibrary>>;

const LibraryWords& Libraries() {
  static const LibraryWords words = {{"vllm", sim::KernelLibrary::kVllm},
                                     {"sglang", sim::KernelLibrary::kSglang},
                                     {"trtllm", sim::KernelLibrary::kTrtllm}};
  return words;
}

class GemmPredictor : public OperationPredictor {
 public:
  GemmPredictor(const HardwareSpec& hardware, const sim::DeviceProfile& profile)
      : hardware_(hardware), profile_(profile) {}

  sim::TimeEstimate Predict(const CsvTable& row) override {
    const sim::KernelLibrary library = LibraryOf(row);
    auto found = models_.find(library);
    if (found == models_.end()) {
      found = models_.emplace(library, sim::GemmModel(hardware_, profile_.gemm, library)).first;
    }
    return found->second({.m = row.Integer("m", 1, kGemmSizeMax),
                          .n = row.Integer("n", 1, kGemmSizeMax),
                          .k = row.Integer("k", 1, kGemmSizeMax),
                          .format = GemmFormatOf(row)});
  }

 private:
  const HardwareSpec& hardware_;
  const sim::DeviceProfile& profile_;
  std::map<sim::KernelLibrary, sim::GemmModel> models_;
};

constexpr std::int64_t kHeadsMax = 4096;
constexpr std::int64_t kBatchMax = 1 << 20;
constexpr std::int64_t kTokensMax = std::int64_t{1} << 30;

DType DTypeOf(const CsvTable& row, std::string_view column) {
  static const std::vector<std::pair<std::string_view, DType>> words = {
      {"bfloat16", DType::kBf16}, {"bf16", DType::kBf16},         {"float16", DType::kBf16},
      {"fp16", DType::kBf16},     {"half", DType::kBf16},         {"auto", DType::kBf16},
      {"fp8", DType::kFp8},       {"fp8_block", DType::kFp8},     {"fp8_e4m3", DType::kFp8},
      {"fp8_e5m2", DType::kFp8},  {"float8_e4m3fn", DType::kFp8}, {"float8_e5m2", DType::kFp8},
      {"int8", DType::kInt8}};
  return row.Word(column, words, DType::kBf16);
}

sim::AttentionHeads HeadsOf(const CsvTable& row) {
  return {.query_heads = static_cast<std::int32_t>(row.Integer("num_heads", 1, kHeadsMax)),
          .kv_heads = static_cast<std::int32_t>(row.Integer("num_kv_heads", 1, kHeadsMax)),
          .head_dim = static_cast<std::int32_t>(row.Integer("head_dim", 1, kHeadsMax)),
          .kv_dtype = DTypeOf(row, "kv_dtype"),
          .compute_dtype = DTypeOf(row, "attn_dtype"),
          .window = row.Has("window")
                        ? static_cast<std::int32_t>(row.Integer("window", 0, kTokensMax))
                        : 0};
}

// Isolated calls, repeated: small caches stay in L2.
class AttentionPredictor : public OperationPredictor {
 public:
  AttentionPredictor(const HardwareSpec& hardware, const sim::DeviceProfile& profile,
                     bool generation)
      : hardware_(hardware), profile_(profile.attention), generation_(generation) {}

  sim::TimeEstimate Predict(const CsvTable& row) override {
    const sim::AttentionModel& model = ModelOf(row);
    const auto batch = static_cast<double>(row.Integer("batch", 1, kBatchMax));
    if (generation_) {
      const auto length = static_cast<double>(row.Integer("kv_len", 1, kTokensMax));
      return model(sim::GenerationAttention{.requests = batch,
                                            .context_tokens = batch * length,
                                            .context_tokens_max = length,
                                            .cold = false});
    }
    const auto length = static_cast<double>(row.Integer("seq_len", 1, kTokensMax));
    return model(sim::ContextAttention{.chunks = batch,
                                       .tokens = batch * length,
                                       .context_tokens = batch * length,
                                       .pairs = batch * length * (length + 1) / 2,
                                       .context_tokens_max = length});
  }

 private:
  using Key = std::tuple<sim::KernelLibrary, std::int32_t, std::int32_t, std::int32_t, DType, DType,
                         std::int32_t>;

  const sim::AttentionModel& ModelOf(const CsvTable& row) {
    const sim::AttentionHeads heads = HeadsOf(row);
    const sim::KernelLibrary library = LibraryOf(row);
    const Key key{library,        heads.query_heads,   heads.kv_heads, heads.head_dim,
                  heads.kv_dtype, heads.compute_dtype, heads.window};
    auto found = models_.find(key);
    if (found == models_.end()) {
      if (heads.query_heads % heads.kv_heads != 0)
        row.Refuse("num_heads", "a multiple of num_kv_heads");
      found = models_.emplace(key, sim::AttentionModel(hardware_, heads, library, profile_)).first;
    }
    return found->second;
  }

  const HardwareSpec& hardware_;
  const sim::AttentionProfile& profile_;
  bool generation_;
  std::map<Key, sim::AttentionModel> models_;
};

}  // namespace

sim::KernelLibrary LibraryOf(const CsvTable& row) {
  return row.Word("backend", Libraries(), sim::KernelLibrary::kVllm);
}

std::string_view NameOf(sim::KernelLibrary library) {
  return std::ranges::find(Libraries(), library, &LibraryWords::value_type::second)->first;
}

std::string_view NameOf(sim::GemmFormat format) {
  switch (format) {
    case sim::GemmFormat::kBf16:
      return "bf16";
    case sim::GemmFormat::kFp8:
      return "fp8";
    case sim::GemmFormat::kFp8Block:
      return "fp8_block";
    case sim::GemmFormat::kInt8:
      return "int8";
    case sim::GemmFormat::kInt4:
      return "int4";
    case sim::GemmFormat::kFp4:
      return "fp4";
    case sim::GemmFormat::kFp32:
      return "fp32";
    case sim::GemmFormat::kMxfp4:
      return "mxfp4";
    case sim::GemmFormat::kMxfp4Fp8:
      return "mxfp4_fp8";
  }
  return "";
}

sim::GemmFormat GemmFormatOf(const CsvTable& row, std::string_view column) {
  using enum sim::GemmFormat;
  static const std::vector<std::pair<std::string_view, sim::GemmFormat>> words = {
      {"bfloat16", kBf16},
      {"bf16", kBf16},
      {"float16", kBf16},
      {"fp16", kBf16},
      {"half", kBf16},
      {"fp8", kFp8},
      {"fp8_static", kFp8},
      {"fp8_ootb", kFp8},
      {"fp8_e4m3", kFp8},
      {"fp8_e5m2", kFp8},
      {"float8_e4m3fn", kFp8},
      {"float8_e5m2", kFp8},
      {"fp32", kFp32},
      {"float32", kFp32},
      {"int8", kInt8},
      {"int8_wo", kInt8},
      {"sq", kInt8},
      {"int4", kInt4},
      {"int4_wo", kInt4},
      {"int4_awq", kInt4},
      {"fp8_block", kFp8Block},
      {"nvfp4", kFp4},
      {"w4a16_mxfp4", kMxfp4},
      {"mxfp4", kMxfp4},
      {"w4a8_mxfp4_mxfp8", kMxfp4Fp8}};
  return row.Word(column, words, kBf16);
}

std::unique_ptr<OperationPredictor> MakeGemmPredictor(const HardwareSpec& hardware,
                                                      const sim::DeviceProfile& profile) {
  return std::make_unique<GemmPredictor>(hardware, profile);
}

std::unique_ptr<OperationPredictor> MakeContextAttentionPredictor(
    const HardwareSpec& hardware, const sim::DeviceProfile& profile) {
  return std::make_unique<AttentionPredictor>(hardware, profile, false);
}

std::unique_ptr<OperationPredictor> MakeGenerationAttentionPredictor(
    const HardwareSpec& hardware, const sim::DeviceProfile& profile) {
  return std::make_unique<AttentionPredictor>(hardware, profile, true);
}

}  // namespace twin::run
