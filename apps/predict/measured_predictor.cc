// Predictions of the kinds of operations in sim/devices/operations/operation_kinds.h.
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "apps/predict/operation_predictor.h"
#include "apps/predict/operation_rows.h"
#include "core/check.h"
#include "sim/devices/operations/measured_operation.h"

namespace twin::run {
namespace {

class MeasuredPredictor : public OperationPredictor {
 public:
  MeasuredPredictor(const HardwareSpec& hardware, const sim::DeviceProfile& profile,
                    const sim::OperationKind& kind)
      : hardware_(hardware), profile_(profile.operations), kind_(kind) {}

  sim::TimeEstimate Predict(const CsvTable& row) override {
    const OperationCall call = ReadOperationCall(kind_, row);
    const Key key{call.library, call.variant, call.shape};
    auto found = models_.find(key);
    if (found == models_.end()) {
      found = models_
                  .emplace(key, sim::MeasuredOperation(hardware_, kind_, call.library, call.variant,
                                                       call.shape, profile_))
                  .first;
    }
    return found->second(call.call);
  }

 private:
  using Key = std::tuple<sim::KernelLibrary, std::string, std::vector<double>>;

  const HardwareSpec& hardware_;
  const sim::OperationProfile& profile_;
  const sim::OperationKind& kind_;
  std::map<Key, sim::MeasuredOperation> models_;
};

}  // namespace

std::unique_ptr<OperationPredictor> MakeMeasuredPredictor(const HardwareSpec& hardware,
                                                          const sim::DeviceProfile& profile,
                                                          std::string_view kind) {
  const sim::OperationKind* const found = sim::OperationKindOf(kind);
  CHECK(found != nullptr);
  return std::make_unique<MeasuredPredictor>(hardware, profile, *found);
}

}  // namespace twin::run
