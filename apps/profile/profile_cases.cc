#include "apps/profile/profile_cases.h"

#include <algorithm>
#include <utility>

#include "apps/profile/profile_host.h"
#include "run/run_directory.h"

namespace twin::run {
namespace {

using Samples = std::vector<double>;

ProfileRow OperationRow(const std::string& name, std::int64_t size, const Samples& seconds) {
  const exec::Spread spread = exec::SpreadOf(seconds);
  return {.kind = "operation",
          .name = name,
          .size = size,
          .samples = spread.count,
          .median_us = spread.median * 1e6,
          .p10_us = spread.p10 * 1e6,
          .p90_us = spread.p90 * 1e6};
}

std::string OperationKey(const std::string& name, std::int64_t size) {
  return ProfileRow{.kind = "operation", .name = name, .size = size}.key();
}

// A case whose operation measures one time.
ProfileCase SingleCase(const exec::RepeatRule& rule, const std::string& name, std::int64_t size,
                       std::function<double()> run) {
  return {{OperationKey(name, size)}, [=, run = std::move(run)] {
            return std::vector{OperationRow(name, size, Repeat(rule, run))};
          }};
}

// One of the times that an operation measures.
template <class Result>
struct NamedPart {
  const char* name;
  double Result::*seconds;
};
template <class Result>
using NamedParts = std::vector<NamedPart<Result>>;

// A case whose operation measures several times.
template <class Result>
ProfileCase ManyCase(const exec::RepeatRule& rule, const NamedParts<Result>& parts,
                     std::int64_t size, std::function<Result()> run) {
  ProfileCase c;
  for (const auto& part : parts) c.keys.push_back(OperationKey(part.name, size));
  c.measure = [=, run = std::move(run)] {
    std::vector<Samples> samples(parts.size());
    Repeat(rule, [&] {
      const Result result = run();
      for (std::size_t i = 0; i < parts.size(); ++i) {
        samples[i].push_back(result.*parts[i].seconds);
      }
      return result.sum();
    });
    std::vector<ProfileRow> rows;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      rows.push_back(OperationRow(parts[i].name, size, samples[i]));
    }
    return rows;
  };
  return c;
}

ProfileCase AttentionCase(const exec::RepeatRule& rule, const exec::ProfiledStep& step,
                          exec::Operations* operations) {
  const std::string name = "attention " + step.name;
  return {{OperationKey(name, 0)}, [=] {
            ProfileRow row = OperationRow(
                name, 0, Repeat(rule, [&] { return operations->RunAttention(step.items); }));
            row.totals = exec::TotalsOf(step.items);
            return std::vector{row};
          }};
}

NamedParts<exec::GemmSeconds> GemmPartsOf(const MoeSpec& moe) {
  using Gemms = exec::GemmSeconds;
  NamedParts<Gemms> parts = {{"gemm_qkv", &Gemms::qkv}, {"gemm_output", &Gemms::output}};
  if (moe.experts == 0) {
    parts.push_back({"gemm_up", &Gemms::up});
    parts.push_back({"gemm_down", &Gemms::down});
    return parts;
  }
  parts.push_back({"gemm_router", &Gemms::router});
  parts.push_back({"gemm_expert_up", &Gemms::expert_up});
  parts.push_back({"gemm_expert_down", &Gemms::expert_down});
  if (moe.shared_intermediate == 0) return parts;
  parts.push_back({"gemm_shared_up", &Gemms::up});
  parts.push_back({"gemm_shared_down", &Gemms::down});
  return parts;
}

NamedParts<exec::OtherSeconds> OtherPartsOf(const MoeSpec& moe) {
  using Others = exec::OtherSeconds;
  NamedParts<Others> parts = {{"norms", &Others::norms},
                              {"rope", &Others::rope},
                              {"append", &Others::append},
                              {"activation", &Others::activation},
                              {"embedding", &Others::embedding}};
  if (moe.experts > 0) parts.push_back({"expert_routing", &Others::routing});
  return parts;
}

std::vector<ProfileCase> OperationCases(const exec::ProfileLimits& limits, const MoeSpec& moe,
                                        const exec::RepeatRule& rule, exec::Operations* operations,
                                        std::int64_t cache_blocks) {
  std::vector<ProfileCase> cases;
  const NamedParts<exec::GemmSeconds> gemms = GemmPartsOf(moe);
  const NamedParts<exec::OtherSeconds> others = OtherPartsOf(moe);
  const std::int64_t rows_max = std::min(limits.batch_max + 2, limits.tokens_max);
  for (const std::int64_t size : exec::GridSizes(limits.tokens_max, limits.coarse)) {
    cases.push_back(ManyCase<exec::GemmSeconds>(
        rule, gemms, size, [operations, size] { return operations->RunGemms(size); }));
    cases.push_back(ManyCase<exec::OtherSeconds>(
        rule, others, size, [operations, size] { return operations->RunOther(size); }));
  }
  for (const std::int64_t size : exec::GridSizes(rows_max, limits.coarse)) {
    cases.push_back(SingleCase(rule, "gemm_head", size,
                               [operations, size] { return operations->RunHead(size); }));
  }
  for (const exec::ProfiledStep& step : exec::PrefillGrid(limits)) {
    cases.push_back(AttentionCase(rule, step, operations));
  }
  for (const exec::ProfiledStep& step : exec::DecodeGrid(limits)) {
    cases.push_back(AttentionCase(rule, step, operations));
  }
  for (std::int64_t blocks = 1; blocks <= std::min<std::int64_t>(256, cache_blocks / 2);
       blocks *= 4) {
    cases.push_back(SingleCase(rule, "block_copy", blocks, [operations, blocks] {
      return operations->RunBlockCopies(blocks);
    }));
  }
  return cases;
}

std::vector<ProfileCase> StepCases(const exec::ProfileLimits& limits, const exec::RepeatRule& rule,
                                   exec::SyntheticSteps* steps) {
  std::vector<exec::ProfiledStep> all = exec::PrefillGrid(limits);
  for (auto* const more : {&exec::DecodeGrid, &exec::MixedSteps}) {
    for (exec::ProfiledStep& step : more(limits)) all.push_back(std::move(step));
  }
  std::vector<ProfileCase> cases;
  for (const exec::ProfiledStep& step : all) {
    ProfileRow row{.kind = "step", .name = step.name, .totals = exec::TotalsOf(step.items)};
    cases.push_back({{row.key()}, [=]() mutable {
                       std::array<Samples, kStepPartCount> parts;
                       const Samples totals = Repeat(rule, [&] {
                         const StepParts times = steps->Run(step.items);
                         for (std::size_t i = 0; i < kStepPartCount; ++i) {
                           parts[i].push_back(Seconds(times.times[i]) * 1e6);
                         }
                         return Seconds(times.device());
                       });
                       const exec::Spread spread = exec::SpreadOf(totals);
                       const std::vector<double> weights = exec::MiddleWeights(totals);
                       row.samples = spread.count;
                       row.median_us = spread.median * 1e6;
                       row.p10_us = spread.p10 * 1e6;
                       row.p90_us = spread.p90 * 1e6;
                       for (std::size_t i = 0; i < kStepPartCount; ++i) {
                         row.parts_us[i] = exec::WeightedMean(parts[i], weights);
                       }
                       return std::vector{row};
                     }});
  }
  return cases;
}

std::vector<ProfileCase> HostCases(const ProfileHeader& header, const ProfileBench& bench) {
  std::vector<ProfileCase> cases;
  const std::int32_t most = std::min(header.limits.batch_max, header.limits.tokens_max / 8);
  for (std::int32_t requests = 1; requests <= most; requests *= header.limits.coarse ? 4 : 2) {
    ProfileCase c;
    for (const char* name : {"prefill", "decode"}) {
      c.keys.push_back(ProfileRow{.kind = "host", .name = name, .size = requests}.key());
    }
    c.measure = [model = bench.model, scratch = bench.scratch, requests,
                 kv_dtype = header.model.kv_dtype, block_size = header.block_size] {
      const RunDirectory directory(scratch);
      return MeasureHost(*model, kv_dtype, block_size, requests, directory);
    };
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace

exec::SyntheticStepsConfig StepsConfigOf(const ModelSpec& model, std::int32_t block_size,
                                         const exec::ProfileLimits& limits) {
  return {.kv_dtype = model.kv_dtype,
          .block_size = block_size,
          .tokens = limits.cache_tokens,
          .items = limits.batch_max + 2};
}

std::vector<ProfileCase> ProfileCases(const ProfileHeader& header, const exec::RepeatRule& rule,
                                      const ProfileBench& bench) {
  const exec::SyntheticStepsConfig steps =
      StepsConfigOf(header.model, header.block_size, header.limits);
  std::vector<ProfileCase> cases = OperationCases(header.limits, header.model.moe, rule,
                                                  bench.operations, exec::CacheBlocks(steps));
  for (ProfileCase& c : StepCases(header.limits, rule, bench.steps)) cases.push_back(std::move(c));
  for (ProfileCase& c : HostCases(header, bench)) cases.push_back(std::move(c));
  return cases;
}

}  // namespace twin::run
