// Which member of an order's config holds which field of its message (field_binding.h).
#pragma once

#include "proto/field_binding.h"
#include "sched/policy/order_config.h"

namespace twin {

template <class Archive>
void Bind(Archive& fields, ServiceTier& config) {
  fields.Seconds("ttft_s", config.ttft);
  fields.Seconds("tbt_s", config.tbt);
  fields.Seconds("ttlt_s", config.ttlt);
}

template <class Archive>
void Bind(Archive& fields, OrderConfig& config) {
  using Kind = OrderConfig::Kind;
  using Size = OrderConfig::Size;
  fields.template Enum<Kind>("kind", config.kind,
                             {{"fcfs", Kind::kFcfs},
                              {"priority", Kind::kPriority},
                              {"sjf", Kind::kSjf},
                              {"srpt", Kind::kSrpt},
                              {"vtc", Kind::kVtc},
                              {"edf", Kind::kEdf}});
  fields.Seconds("ageing_s", config.ageing);
  fields.template Enum<Size>("size", config.size,
                             {{"output", Size::kOutput}, {"prompt", Size::kPrompt}});
  fields.Value("input_weight", config.shares.input_weight);
  fields.Value("output_weight", config.shares.output_weight);
  fields.Values("tenant_shares", config.shares.tenant_shares);
  fields.List("tiers", config.tiers);
  fields.Seconds("token_time_s", config.token_time);
}

}  // namespace twin
