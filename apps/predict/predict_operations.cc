#include "apps/predict/predict_operations.h"

#include <cmath>
#include <memory>
#include <vector>

#include "apps/predict/operation_predictor.h"
#include "apps/predict/prediction_file.h"
#include "core/check.h"
#include "core/files/csv.h"
#include "run/run_control.h"

namespace twin::run {
namespace {

constexpr double kUsPerSecond = 1e6;
// Between the median and the ends of the 90 % interval, in standard deviations.
constexpr double kInterval = 1.645;
constexpr std::uint64_t kRowsPerReport = 4096;

std::vector<std::string_view> RequiredColumns(OperationKind kind) {
  switch (kind) {
    case OperationKind::kGemm:
      return {"m", "n", "k"};
    case OperationKind::kContextAttention:
      return {"num_heads", "num_kv_heads", "head_dim", "batch", "seq_len"};
    case OperationKind::kGenerationAttention:
      return {"num_heads", "num_kv_heads", "head_dim", "batch", "kv_len"};
  }
  CHECK(false);
  return {};
}

// aiconfigurator's own names of columns.
std::vector<CsvTable::Synonym> UpstreamNames(OperationKind kind) {
  std::vector<CsvTable::Synonym> names = {{"framework", "backend"}};
  if (kind == OperationKind::kGemm) {
    names.emplace_back("gemm_dtype", "dtype");
    return names;
  }
  names.insert(names.end(), {{"num_key_value_heads", "num_kv_heads"},
                             {"batch_size", "batch"},
                             {"window_size", "window"},
                             {"kv_cache_dtype", "kv_dtype"},
                             {"dtype", "attn_dtype"}});
  if (kind == OperationKind::kContextAttention) names.emplace_back("isl", "seq_len");
  return names;
}

std::unique_ptr<OperationPredictor> MakePredictor(OperationKind kind, const HardwareSpec& hardware,
                                                  const sim::DeviceProfile& profile) {
  switch (kind) {
    case OperationKind::kGemm:
      return MakeGemmPredictor(hardware, profile);
    case OperationKind::kContextAttention:
      return MakeContextAttentionPredictor(hardware, profile);
    case OperationKind::kGenerationAttention:
      return MakeGenerationAttentionPredictor(hardware, profile);
  }
  CHECK(false);
  return nullptr;
}

}  // namespace

std::uint64_t PredictOperations(const HardwareSpec& hardware, const sim::DeviceProfile& profile,
                                OperationKind kind, const OperationTableFiles& files,
                                RunControl& control) {
  CsvTable table(files.in, RequiredColumns(kind), UpstreamNames(kind));
  const std::unique_ptr<OperationPredictor> predictor = MakePredictor(kind, hardware, profile);
  PredictionFile out(files.out, table);
  std::uint64_t rows = 0;
  while (table.Next()) {
    EndIfStopped(control);
    const sim::Estimate estimate = predictor->Predict(table);
    const double us = kUsPerSecond * estimate.seconds;
    const double factor = std::exp(kInterval * estimate.log_sd);
    out.Add(us, us / factor, us * factor);
    if (++rows % kRowsPerReport == 0) control.OnProgress("operations", rows, 0);
  }
  control.OnProgressEnd();
  out.Commit();
  return rows;
}

}  // namespace twin::run
