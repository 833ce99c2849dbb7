#include "apps/profile_host.h"

#include <map>
#include <string>

#include "exec/cpu/cpu_backend.h"
#include "exec/profile/spread.h"
#include "exec/real_world.h"
#include "record/recording_world.h"
#include "sched/engine.h"
#include "sched/policy/registry.h"
#include "sched/serve.h"

namespace twin::apps {
namespace {

constexpr std::int32_t kPromptTokens = 8;
constexpr std::int32_t kOutputTokens = 24;

// The same request so many times, all at time zero.
class BurstSource final : public ArrivalSource {
 public:
  explicit BurstSource(std::int32_t requests) : left_(requests) {
    request_.prompt_tokens = kPromptTokens;
    request_.output_tokens = request_.max_output_tokens = kOutputTokens;
  }
  const TracedRequest* Peek() override { return left_ > 0 ? &request_ : nullptr; }
  void Take() override { --left_; }
  void OnDone(RequestId, TimePoint) override {}

 private:
  std::int32_t left_;
  TracedRequest request_;
};

struct HostTimes {
  StepTotals totals;
  std::vector<double> schedule_us;
  std::vector<double> delivery_us;
};

// Brings plans and the times of their steps together.
class HostWatch final : public RunObserver, public exec::RealWorldListener {
 public:
  explicit HostWatch(std::int32_t requests) : requests_(requests) {}

  void OnInstant(const Instant&) override {}
  void OnPlan(TimePoint, const StepPlan& plan) override {
    if (static_cast<std::int32_t>(plan.work.size()) == requests_) totals_[plan.id] = plan.totals;
  }
  void OnStep(StepId id, const StepTimes& times) override {
    const auto found = totals_.find(id);
    if (found == totals_.end()) return;
    HostTimes& host = found->second.prefill_items > 0 ? prefill_ : decode_;
    host.totals = found->second;
    host.schedule_us.push_back(Seconds(times.parts[StepPart::kSchedule]) * 1e6);
    host.delivery_us.push_back(Seconds(times.parts[StepPart::kDelivery]) * 1e6);
  }

  [[nodiscard]] const HostTimes& prefill() const { return prefill_; }
  [[nodiscard]] const HostTimes& decode() const { return decode_; }

 private:
  std::int32_t requests_;
  std::map<StepId, StepTotals> totals_;
  HostTimes prefill_;
  HostTimes decode_;
};

void AddRow(const std::string& name, std::int32_t requests, const HostTimes& times,
            std::vector<ProfileRow>& rows) {
  if (times.schedule_us.empty()) return;
  std::vector<double> sums;
  for (std::size_t i = 0; i < times.schedule_us.size(); ++i) {
    sums.push_back(times.schedule_us[i] + times.delivery_us[i]);
  }
  const exec::Spread spread = exec::SpreadOf(sums);
  ProfileRow row{.kind = "host",
                 .name = name,
                 .size = requests,
                 .totals = times.totals,
                 .samples = spread.count,
                 .median_us = spread.median,
                 .p10_us = spread.p10,
                 .p90_us = spread.p90};
  row.parts_us[static_cast<std::size_t>(StepPart::kSchedule)] =
      exec::Quantile(times.schedule_us, 0.5);
  row.parts_us[static_cast<std::size_t>(StepPart::kDelivery)] =
      exec::Quantile(times.delivery_us, 0.5);
  rows.push_back(row);
}

}  // namespace

std::vector<ProfileRow> MeasureHost(exec::CpuModel& model, DType kv_dtype, std::int32_t block_size,
                                    std::int32_t requests) {
  const std::int32_t blocks_each = (kPromptTokens + kOutputTokens + block_size - 1) / block_size;
  VllmV1Config policy;
  policy.max_num_seqs = requests;
  policy.max_num_batched_tokens = requests * kPromptTokens;
  EngineConfig config;
  config.kv = {.block_size = block_size, .blocks = requests * blocks_each + requests + 2};
  Engine engine(config, MakePolicy(policy, config.kv));
  exec::CpuBackend backend(
      model, {.kv_dtype = kv_dtype, .block_size = block_size, .blocks = config.kv.blocks});
  BurstSource source(requests);
  HostWatch watch(requests);
  {
    exec::RealWorld world(source, backend,
                          {.vocab = model.config().shape.vocab, .seed = 1, .listener = &watch});
    RunObserver* const observers[] = {&watch};
    RecordingWorld recorded(world, observers);
    Serve(engine, recorded);
  }
  engine.CheckDrained();
  std::vector<ProfileRow> rows;
  AddRow("prefill", requests, watch.prefill(), rows);
  AddRow("decode", requests, watch.decode(), rows);
  return rows;
}

}  // namespace twin::apps
