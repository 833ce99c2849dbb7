#include "apps/profile/profile_host.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <system_error>

#include "config/case_parameters.h"
#include "exec/profile/spread.h"
#include "exec/real_world.h"
#include "run/make_engines.h"
#include "run/record/recording_world.h"
#include "run/record/table_rows.h"
#include "run/run_files.h"
#include "run/run_metrics.h"
#include "sched/engine.h"
#include "sched/policy/policy_config.h"
#include "sched/serve.h"

namespace twin::run {
namespace {

constexpr std::int32_t kPromptTokens = 8;
constexpr std::int32_t kOutputTokens = 24;

// A number of equal requests, all at time zero.
class BurstSource final : public ArrivalSource {
 public:
  explicit BurstSource(std::int32_t requests) : left_(requests) {
    request_.prompt_tokens = kPromptTokens;
    request_.output_tokens = request_.max_output_tokens = kOutputTokens;
  }
  const TracedRequest* Peek() override { return left_ > 0 ? &request_ : nullptr; }
  void Take() override { --left_; }
  void OnDone(RequestId /*id*/, TimePoint /*now*/, std::int32_t /*answer_tokens*/) override {}

 private:
  std::int32_t left_;
  TracedRequest request_;
};

struct HostTimes {
  StepTotals totals;
  std::vector<double> schedule_us;
  std::vector<double> delivery_us;
};

// Combines plans with the times of their steps, and writes parts.csv as a real run does.
class HostWatch final : public RunObserver, public exec::RealWorldListener {
 public:
  HostWatch(std::int32_t requests, const RunDirectory& directory)
      : requests_(requests),
        path_(directory.File("parts.csv")),
        file_(path_, std::ios::binary),
        rows_(file_) {
    RequireGood();
  }

  void OnInstant(const Instant&) override {}
  void OnPlan(TimePoint, const StepPlan& plan) override {
    if (static_cast<std::int32_t>(plan.work.size()) == requests_) totals_[plan.id] = plan.totals;
  }
  void OnStep(std::int32_t replica, StepId id, const StepTimes& times) override {
    rows_.Add(replica, id, times);
    const auto found = totals_.find(id);
    if (found == totals_.end()) return;
    HostTimes& host = found->second.prefill_items > 0 ? prefill_ : decode_;
    host.totals = found->second;
    host.schedule_us.push_back(Seconds(times.parts[StepPart::kSchedule]) * 1e6);
    host.delivery_us.push_back(Seconds(times.parts[StepPart::kDelivery]) * 1e6);
  }

  void Finish() {
    file_.flush();
    RequireGood();
  }

  [[nodiscard]] const HostTimes& prefill() const { return prefill_; }
  [[nodiscard]] const HostTimes& decode() const { return decode_; }

 private:
  void RequireGood() const {
    if (!file_) throw std::system_error(errno, std::generic_category(), path_.string());
  }

  std::int32_t requests_;
  std::filesystem::path path_;
  std::ofstream file_;
  PartRows rows_;
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
  const std::vector<double> weights = exec::MiddleWeights(sums);
  row.parts_us[static_cast<std::size_t>(StepPart::kSchedule)] =
      exec::WeightedMean(times.schedule_us, weights);
  row.parts_us[static_cast<std::size_t>(StepPart::kDelivery)] =
      exec::WeightedMean(times.delivery_us, weights);
  rows.push_back(row);
}

}  // namespace

std::vector<ProfileRow> MeasureHost(exec::DeviceModel& model, DType kv_dtype,
                                    std::int32_t block_size, std::int32_t requests,
                                    const RunDirectory& directory) {
  const std::int32_t blocks_each = (kPromptTokens + kOutputTokens + block_size - 1) / block_size;
  const PolicyConfig policy =
      ReadCaseParameters("vllm_v1_033",
                         fmt::format(R"({{"max_num_seqs": {}, "max_num_batched_tokens": {}}})",
                                     requests, std::int64_t{requests} * kPromptTokens),
                         "profile of the host");
  Deployment deployment;  // has the outputs and metrics of any run
  deployment.config.policy = policy;
  deployment.config.workload.requests = requests;
  deployment.traits = TraitsOf(deployment.config.policy);
  deployment.engine.kv = {.block_size = block_size,
                          .blocks = requests * blocks_each + requests + 2};
  const std::unique_ptr<Engine> engine = MakeEngine(deployment);
  const std::unique_ptr<exec::Backend> backend =
      model.MakeExecutor({.kv_dtype = kv_dtype,
                          .block_size = block_size,
                          .blocks = deployment.engine.kv.blocks,
                          .returns_logits = false});
  BurstSource source(requests);
  RunFiles files(deployment, "", directory);
  RunMetrics metrics(deployment, files.watchers());
  HostWatch watch(requests, directory);
  {
    exec::RealWorld world(source, *backend,
                          {.vocab = model.config().shape.vocab, .seed = 1, .listener = &watch});
    std::vector<RunObserver*> list(metrics.observers().begin(), metrics.observers().end());
    list.push_back(&watch);
    RecordingWorld recorded(world, list);
    Serve(*engine, recorded);
  }
  engine->CheckDrained();
  files.Finish(metrics);
  (void)metrics.Summarise();
  watch.Finish();
  std::vector<ProfileRow> rows;
  AddRow("prefill", requests, watch.prefill(), rows);
  AddRow("decode", requests, watch.decode(), rows);
  return rows;
}

}  // namespace twin::run
