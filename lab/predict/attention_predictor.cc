#include "lab/predict/attention_predictor.h"

#include <algorithm>

#include "sim/cost/operations/attention_model.h"

namespace twin::lab {
namespace {

constexpr std::int64_t kHeadsMax = 4096;
constexpr std::int64_t kBatchMax = 1 << 20;
constexpr std::int64_t kTokensMax = std::int64_t{1} << 30;

DType DTypeOf(const OperationTable& row, std::string_view column) {
  static const std::vector<std::pair<std::string_view, DType>> words = {
      {"bfloat16", DType::kBf16}, {"bf16", DType::kBf16}, {"float16", DType::kBf16},
      {"fp16", DType::kBf16},     {"fp8", DType::kFp8},   {"int8", DType::kInt8}};
  return row.Word(column, words, DType::kBf16);
}

sim::AttentionHeads HeadsOf(const OperationTable& row) {
  return {.query_heads = static_cast<std::int32_t>(row.Integer("num_heads", 1, kHeadsMax)),
          .kv_heads = static_cast<std::int32_t>(row.Integer("num_kv_heads", 1, kHeadsMax)),
          .head_dim = static_cast<std::int32_t>(row.Integer("head_dim", 1, kHeadsMax)),
          .kv_dtype = DTypeOf(row, "kv_dtype")};
}

// Keys that a query attends to at most; 0 = all before it.
std::int64_t WindowOf(const OperationTable& row, std::int64_t length) {
  const std::int64_t window = row.Has("window") ? row.Integer("window", 0, kTokensMax) : 0;
  return window == 0 ? length : std::min(window, length);
}

class AttentionPredictor : public OperationPredictor {
 public:
  AttentionPredictor(const HardwareSpec& hardware, bool generation)
      : hardware_(hardware), generation_(generation) {}

  sim::Estimate Predict(const OperationTable& row) override {
    const sim::AttentionModel model(hardware_, HeadsOf(row), LibraryOf(row));
    const auto batch = static_cast<double>(row.Integer("batch", 1, kBatchMax));
    if (generation_) {
      const std::int64_t length = row.Integer("kv_len", 1, kTokensMax);
      const auto seen = static_cast<double>(WindowOf(row, length));
      return model(sim::GenerationAttention{
          .requests = batch, .context_tokens = batch * seen, .context_tokens_max = seen});
    }
    const std::int64_t length = row.Integer("seq_len", 1, kTokensMax);
    const auto tokens = static_cast<double>(length);
    const auto window = static_cast<double>(WindowOf(row, length));
    const double pairs = window * (window + 1) / 2 + (tokens - window) * window;
    return model(sim::ContextAttention{.chunks = batch,
                                       .tokens = batch * tokens,
                                       .context_tokens = batch * tokens,
                                       .pairs = batch * pairs});
  }

 private:
  const HardwareSpec& hardware_;
  bool generation_;
};

}  // namespace

std::unique_ptr<OperationPredictor> MakeContextAttentionPredictor(
    const HardwareSpec& hardware, const sim::DeviceProfile& /*profile*/) {
  return std::make_unique<AttentionPredictor>(hardware, false);
}

std::unique_ptr<OperationPredictor> MakeGenerationAttentionPredictor(
    const HardwareSpec& hardware, const sim::DeviceProfile& /*profile*/) {
  return std::make_unique<AttentionPredictor>(hardware, true);
}

}  // namespace twin::lab
