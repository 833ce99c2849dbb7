// CudaModel: mixtures of experts.

#include "core/check.h"
#include "exec/cuda/cuda_model.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/expert_gemm.h"
#include "kernels/cuda/routing.h"

namespace twin::exec::cuda {

namespace on = kernels::cuda;

CudaModel::Matrix CudaModel::ComputeMixture(const DeviceLayer& layer, Matrix input,
                                            LapEvents& laps) {
  const Matrix delta = activations_.normed(input.rows);
  MixExperts(layer, input, delta, [&](MixturePart part) {
    laps.Lap(device_->compute(), IsProduct(part) ? StepPart::kGemm : StepPart::kOther);
  });
  return delta;
}

void CudaModel::MixExperts(const DeviceLayer& layer, Matrix x, Matrix y, const MixtureLap& lap) {
  CHECK(layer.experts.size() == 1 && share_.shape.gated_mlp);
  const StreamView stream = device_->compute();
  const Matrix logits = activations_.router_logits(x.rows);
  Multiply(x, layer.router, logits);
  lap(MixturePart::kRouter);
  const on::RoutedPairs routed = activations_.routed(x.rows);
  on::RouteRows(stream, logits, share_.normalises_expert_weights, routed);
  lap(MixturePart::kRouting);
  const DeviceLinear& up = layer.experts.front().up;
  const DeviceLinear& down = layer.experts.front().down;
  const Matrix inner = activations_.expert_inner(x.rows);
  const Matrix activated = activations_.expert_activated(x.rows);
  const Matrix outputs = activations_.expert_outputs(x.rows);
  on::ExpertGemm(stream, x, up.matrix, routed, on::ExpertInput::kRows, inner);
  lap(MixturePart::kExpertUp);
  on::ActivateGated(stream, share_.activation, inner, nullptr, activated);
  lap(MixturePart::kActivation);
  on::ExpertGemm(stream, activated, down.matrix, routed, on::ExpertInput::kPlaces, outputs);
  lap(MixturePart::kExpertDown);
  on::SharedExpert shared;
  if (!layer.up.empty()) {
    shared = {x, layer.shared_gate.matrix, activations_.shared_output(x.rows)};
    const Matrix shared_inner = activations_.inner(x.rows);
    const Matrix shared_activated = activations_.activated(x.rows);
    Multiply(x, layer.up, shared_inner);
    lap(MixturePart::kSharedUp);
    Activate(layer, shared_inner, shared_activated);
    lap(MixturePart::kActivation);
    Multiply(shared_activated, layer.down, shared.output);
    lap(MixturePart::kSharedDown);
  }
  on::SumExperts(stream, outputs, routed, shared, y);
  lap(MixturePart::kRouting);
}

}  // namespace twin::exec::cuda
