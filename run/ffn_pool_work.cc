#include "run/ffn_pool_work.h"

#include <algorithm>
#include <cmath>

#include "core/dtype.h"
#include "core/layer_groups.h"
#include "sim/cost/ffn_pool_cost.h"
#include "sim/cost/ffn_pool_models.h"

namespace twin::run {

FfnPoolWorkModel::FfnPoolWorkModel(const ModelSpec& model, const HardwareSpec& hardware,
                                   const Parallelism& parallelism, const sim::FfnPoolConfig& ffn)
    : attention_energy_(*hardware.energy),
      ffn_energy_(*ffn.hardware_spec.energy),
      attention_groups_(ffn.attention_groups),
      micro_batches_(ffn.micro_batches),
      attention_(sim::WithoutMlps(model), hardware, parallelism) {
  const double width = model.embedding_width > 0 ? model.embedding_width : model.hidden;
  head_bytes_ =
      model.vocab * width * static_cast<double>(ByteSize(EmbeddingFormat(model.weight_dtype)));
  const std::int32_t devices = sim::FfnDevicesOfLayer(model, ffn);
  for (const LayerGroup& group : OrderedLayers(model)) {
    for (const sim::FfnPart& part : sim::FfnParts(model, group.layer, ffn)) {
      parts_.push_back({.work = sim::DeviceWorkModel(sim::FfnLayers(model, part, group.layers),
                                                     ffn.hardware_spec, {.tensor = part.tensor}),
                        .rows_per_token = part.rows_per_token,
                        .devices = static_cast<double>(devices) / part.tensor});
    }
    const double visits =
        sim::DevicesVisited(model, group.layer, ffn) * group.layers * model.hidden;
    token_link_.attention += visits * sim::kSentBytes * attention_energy_.joules_per_link_byte;
    token_link_.ffn += visits * sim::kReturnedBytes * ffn_energy_.joules_per_link_byte;
  }
}

FfnPoolJoules FfnPoolWorkModel::Of(const StepTotals& totals,
                                   std::int64_t decode_context_tokens) const {
  if (totals.tokens() == 0) return {};
  StepTotals all = totals;
  all.decode_context_tokens = decode_context_tokens;
  const auto m = static_cast<std::int32_t>(std::min<std::int64_t>(micro_batches_, totals.tokens()));
  StepTotals share = sim::ShareOfAttention(all, attention_groups_, m);
  share.emitting_items = (share.emitting_items + m - 1) / m;
  sim::DeviceWork attention = attention_.WorkOfStep(share, share.decode_context_tokens);
  attention.bytes -= head_bytes_ * (1 - 1.0 / m);
  const auto all_tokens = static_cast<double>(totals.tokens());
  FfnPoolJoules joules{all_tokens * token_link_.attention, all_tokens * token_link_.ffn};
  joules.attention += attention_groups_ * m * sim::Joules(attention_energy_, attention);
  const double tokens = std::ceil(all_tokens / m);
  for (const Part& part : parts_) {
    const StepTotals rows{.decode_items =
                              static_cast<std::int64_t>(std::ceil(tokens * part.rows_per_token))};
    joules.ffn += m * part.devices * sim::Joules(ffn_energy_, part.work.WorkOfStep(rows, 0));
  }
  return joules;
}

}  // namespace twin::run
