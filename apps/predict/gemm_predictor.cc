#include "apps/predict/gemm_predictor.h"

#include <map>

#include "sim/devices/operations/gemm_model.h"

namespace twin::run {

sim::GemmFormat GemmFormatOf(const CsvTable& row, std::string_view column) {
  using enum sim::GemmFormat;
  static const std::vector<std::pair<std::string_view, sim::GemmFormat>> words = {
      {"bfloat16", kBf16},  {"bf16", kBf16},         {"float16", kBf16},
      {"fp16", kBf16},      {"half", kBf16},         {"fp8", kFp8},
      {"fp8_static", kFp8}, {"fp8_ootb", kFp8},      {"fp8_e4m3", kFp8},
      {"fp8_e5m2", kFp8},   {"float8_e4m3fn", kFp8}, {"float8_e5m2", kFp8},
      {"fp32", kFp32},      {"float32", kFp32},      {"int8", kInt8},
      {"int8_wo", kInt8},   {"sq", kInt8},           {"int4", kInt4},
      {"int4_wo", kInt4},   {"int4_awq", kInt4},     {"fp8_block", kFp8Block},
      {"nvfp4", kFp4}};
  return row.Word(column, words, kBf16);
}

namespace {

class GemmPredictor : public OperationPredictor {
 public:
  GemmPredictor(const HardwareSpec& hardware, const sim::DeviceProfile& profile)
      : hardware_(hardware), profile_(profile) {}

  sim::Estimate Predict(const CsvTable& row) override {
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

}  // namespace

std::unique_ptr<OperationPredictor> MakeGemmPredictor(const HardwareSpec& hardware,
                                                      const sim::DeviceProfile& profile) {
  return std::make_unique<GemmPredictor>(hardware, profile);
}

}  // namespace twin::run
