// Bindings that the schemas cannot describe (field_binding.h): fields with the option by_hand, and
// messages without the option cpp_struct.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "config/experiment.bind.h"
#include "config/policy.bind.h"
#include "config/profile.bind.h"
#include "config/study.bind.h"
#include "core/input_error.h"
#include "sim/devices/operations/gemm_table.h"

namespace twin {

// The path of a policy is left out where it is empty.
template <class Archive>
void BindByHand(Archive& fields, PolicyFile& file) {
  std::optional<std::string> path;
  if (!file.path.empty()) path = file.path;
  fields.Value("path", path);
  file.path = path.value_or("");
}

// The policy of an experiment: one of the registry, or a file.
struct ChosenPolicy {
  PolicyConfig& registered;
  std::optional<PolicyFile>& file;
};

template <class Archive>
void Bind(Archive& fields, ChosenPolicy& policy) {
  fields.Nested("own", policy.file);
  if (!policy.file) Bind(fields, policy.registered);
}

template <class Archive>
void BindByHand(Archive& fields, ExperimentConfig& config) {
  ChosenPolicy policy{config.policy, config.policy_file};
  fields.Nested("policy", policy);
}

template <class Archive>
void Bind(Archive& fields, WarmupRule& rule) {
  fields.template Enum<WarmupKindWords>("kind", rule);
}

// The fitted numbers of a kernel as one list.
template <class Archive, class Kernel>
void BindFitted(Archive& fields, Kernel& kernel) {
  std::vector<double> numbers;
  for (const double* number : kernel.fields()) numbers.push_back(*number);
  fields.Value("fitted", numbers);
  if (numbers.size() != Kernel::kFields) {
    throw InputError(InputError::Kind::kUsage, "fitted",
                     fmt::format("{} numbers; allowed: {}", numbers.size(), Kernel::kFields));
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) *kernel.fields()[i] = numbers[i];
}

template <class Archive>
void BindByHand(Archive& fields, sim::ContextKernel& kernel) {
  BindFitted(fields, kernel);
}

template <class Archive>
void BindByHand(Archive& fields, sim::GenerationKernel& kernel) {
  BindFitted(fields, kernel);
}

template <class Archive>
void BindByHand(Archive& fields, sim::OperationTable& table) {
  BindFitted(fields, table.coefficients);
}

// A table has the kernel of its kind alone.
template <class Archive>
void BindByHand(Archive& fields, sim::AttentionTable& table) {
  if (table.kind == sim::AttentionKind::kContext) {
    fields.Nested("context_kernel", table.context);
  } else {
    fields.Nested("generation_kernel", table.generation);
  }
}

template <class Archive>
void BindByHand(Archive& fields, sim::GemmTable& table) {
  std::vector<std::string> curves = sim::JoinGemmCurves(table);
  fields.Value("curves", curves);
  table.curves = sim::SplitGemmCurves(curves);
}

}  // namespace twin
