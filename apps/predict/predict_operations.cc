#include "apps/predict/predict_operations.h"

#include <cmath>
#include <memory>
#include <vector>

#include "apps/predict/operation_predictor.h"
#include "apps/predict/operation_rows.h"
#include "apps/predict/prediction_file.h"
#include "core/files/csv.h"
#include "run/run_control.h"
#include "sim/devices/operations/operation_kinds.h"

namespace twin::run {
namespace {

constexpr double kUsPerSecond = 1e6;
// Between the median and the ends of the 90 % interval, in standard deviations.
constexpr double kInterval = 1.645;
constexpr std::uint64_t kRowsPerReport = 4096;

constexpr std::string_view kGemmWord = "gemm";
constexpr std::string_view kContextWord = "context_attention";
constexpr std::string_view kGenerationWord = "generation_attention";

std::vector<std::string_view> RequiredColumns(std::string_view kind) {
  if (kind == kGemmWord) return {"m", "n", "k"};
  if (const sim::OperationKind* const other = sim::OperationKindOf(kind); other != nullptr) {
    return RequiredColumnsOf(*other);
  }
  return {"num_heads", "num_kv_heads", "head_dim", "batch",
          kind == kContextWord ? "seq_len" : "kv_len"};
}

// aiconfigurator's own names of columns.
std::vector<CsvTable::Synonym> UpstreamNames(std::string_view kind) {
  std::vector<CsvTable::Synonym> names = {{"framework", "backend"}};
  if (kind == kGemmWord) {
    names.emplace_back("gemm_dtype", "dtype");
    return names;
  }
  if (sim::OperationKindOf(kind) != nullptr) {
    names.insert(names.end(), {{"batch_size", "batch"}, {"kernel_source", "kernel"}});
    return names;
  }
  names.insert(names.end(), {{"num_key_value_heads", "num_kv_heads"},
                             {"batch_size", "batch"},
                             {"window_size", "window"},
                             {"kv_cache_dtype", "kv_dtype"},
                             {"dtype", "attn_dtype"}});
  if (kind == kContextWord) names.emplace_back("isl", "seq_len");
  return names;
}

std::unique_ptr<OperationPredictor> MakePredictor(std::string_view kind,
                                                  const HardwareSpec& hardware,
                                                  const sim::DeviceProfile& profile) {
  if (kind == kGemmWord) return MakeGemmPredictor(hardware, profile);
  if (kind == kContextWord) return MakeContextAttentionPredictor(hardware, profile);
  if (kind == kGenerationWord) return MakeGenerationAttentionPredictor(hardware, profile);
  return MakeMeasuredPredictor(hardware, profile, kind);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> OperationKindWords() {
  std::vector<std::pair<std::string, std::string>> words;
  const auto add = [&](std::string_view name) { words.emplace_back(name, name); };
  for (const std::string_view name : {kGemmWord, kContextWord, kGenerationWord}) add(name);
  for (const sim::OperationKind& kind : sim::OperationKinds()) add(kind.name);
  return words;
}

ProfilePart PartOfOperation(std::string_view kind) {
  if (kind == kGemmWord) return ProfilePart::kGemm;
  return sim::OperationKindOf(kind) != nullptr ? ProfilePart::kOperations : ProfilePart::kAttention;
}

std::uint64_t PredictOperations(const HardwareSpec& hardware, const sim::DeviceProfile& profile,
                                std::string_view kind, const OperationTableFiles& files,
                                RunControl& control) {
  CsvTable table(files.in, RequiredColumns(kind), UpstreamNames(kind));
  const std::unique_ptr<OperationPredictor> predictor = MakePredictor(kind, hardware, profile);
  PredictionFile out(files.out, table);
  std::uint64_t rows = 0;
  while (table.Next()) {
    EndIfStopped(control);
    const sim::TimeEstimate estimate = predictor->Predict(table);
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
