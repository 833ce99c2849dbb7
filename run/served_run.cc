#include "run/served_run.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

#include "config/experiment_config.h"
#include "core/input_error.h"
#include "run/cost_cache.h"
#include "run/deployment.h"
#include "run/make_engines.h"
#include "run/record/metric_catalog.h"
#include "run/record/metric_table.h"
#include "run/record/recording_world.h"
#include "run/record/run_listener.h"
#include "run/run_metrics.h"
#include "run/run_outcome.h"
#include "sched/serve.h"
#include "sim/world/sim_world.h"

namespace twin::run {
namespace {

// Collects what clients did from the events of a run.
class ClientLog final : public RunObserver, public RunListener {
 public:
  explicit ClientLog(std::int32_t key_tokens) : key_tokens_(key_tokens) {}

  void OnInstant(const Instant& instant) override {
    latest_ = instant.now;
    for (const Event& event : instant.events) {
      if (const auto* const arrived = std::get_if<RequestArrived>(&event)) {
        Add(arrived->request);
      } else if (const auto* const cancelled = std::get_if<RequestCancelled>(&event)) {
        departures_.push_back({*cancelled, instant.now});
      } else if (const auto* const finished = std::get_if<StepFinished>(&event)) {
        for (const BlockFilled& filled : finished->filled) {
          requests_[Index(filled.request)].prefix_chunks.push_back(
              static_cast<std::uint64_t>(filled.key));
        }
      }
    }
  }
  void OnPlan(TimePoint /*now*/, const StepPlan& /*plan*/) override {}

  void OnEnded(const RequestLife& life) override {
    ended_[Index(life.id)] = true;
    if (life.status != RequestStatus::kCompleted) return;
    requests_[Index(life.id)].output_tokens = life.output_tokens;
    completed_.push_back(life.id);
  }

  // Moves the collected requests to `run`. A request that was unfinished when the service ended
  // leaves at that time.
  void Tell(ServedRun& run) {
    for (std::size_t i = 0; i < ended_.size(); ++i) {
      if (ended_[i]) continue;
      departures_.push_back({{RequestId{static_cast<std::uint32_t>(i)}}, latest_});
    }
    std::sort(completed_.begin(), completed_.end());
    std::erase_if(departures_, [this](const ServedRun::Departure& departure) {
      return std::binary_search(completed_.begin(), completed_.end(), departure.cancelled.request);
    });
    run.requests = std::move(requests_);
    run.departures = std::move(departures_);
  }

 private:
  void Add(const Request& request) {
    TracedRequest traced{.arrival = request.arrival,
                         .prompt_tokens = request.prompt_tokens,
                         .output_tokens = request.max_output_tokens,
                         .max_output_tokens = request.max_output_tokens,
                         .predicted_output_tokens = request.predicted_output_tokens,
                         .priority = request.priority,
                         .tenant = request.tenant,
                         .session = request.session,
                         .ignore_eos = request.ignore_eos,
                         .prefix_chunks = {},
                         .prefix_chunk_tokens = key_tokens_};
    for (const BlockKey key : request.prefix_keys) {
      traced.prefix_chunks.push_back(static_cast<std::uint64_t>(key));
    }
    requests_.push_back(std::move(traced));
    ended_.push_back(false);
  }

  std::int32_t key_tokens_;
  std::vector<TracedRequest> requests_;  // by id
  std::vector<ServedRun::Departure> departures_;
  std::vector<RequestId> completed_;
  std::vector<bool> ended_;  // by id
  TimePoint latest_ = kTimeZero;
};

class RecordedArrivals final : public ArrivalSource {
 public:
  explicit RecordedArrivals(std::vector<TracedRequest> requests) : requests_(std::move(requests)) {
    // Requests that reached the engine together may have been sent in another order.
    TimePoint latest = kTimeZero;
    for (TracedRequest& request : requests_) {
      request.arrival = latest = std::max(latest, request.arrival);
    }
  }

  const TracedRequest* Peek() override {
    return taken_ < requests_.size() ? &requests_[taken_] : nullptr;
  }
  void Take() override { ++taken_; }
  void OnDone(RequestId /*id*/, TimePoint /*now*/, std::int32_t /*answer_tokens*/) override {}

 private:
  std::vector<TracedRequest> requests_;
  std::size_t taken_ = 0;
};

// A simulated world whose clients leave when the record says.
class LeavingWorld final : public World {
 public:
  LeavingWorld(sim::SimWorld& inner, std::span<const ServedRun::Departure> departures)
      : inner_(inner) {
    for (const ServedRun::Departure& departure : departures) {
      departures_.emplace(departure.cancelled.request, departure);
    }
  }

  Instant Advance(TimePoint wake_at) override {
    // Schedules the departures of the requests that arrived in the latest instants.
    while (!departures_.empty() && Index(departures_.begin()->first) < inner_.arrived()) {
      const ServedRun::Departure& departure = departures_.begin()->second;
      inner_.Cancel(departure.cancelled, std::max(departure.time, inner_.now() + Duration{1}));
      departures_.erase(departures_.begin());
    }
    return inner_.Advance(wake_at);
  }
  void Launch(const StepPlan& plan) override { inner_.Launch(plan); }
  void Transfer(const KvTransfer& transfer) override { inner_.Transfer(transfer); }

 private:
  sim::SimWorld& inner_;
  std::map<RequestId, ServedRun::Departure> departures_;
};

std::filesystem::path RecordOf(const std::filesystem::path& run) {
  std::filesystem::path file = std::filesystem::is_directory(run) ? run / "record.pb" : run;
  if (std::filesystem::exists(file)) return file;
  throw InputError(InputError::Kind::kUsage, run.string(),
                   "has no record.pb; allowed: a run directory made with outputs.record");
}

ServedRun ReadServed(RecordReader& reader, const ExperimentConfig& config, CostCache& costs) {
  ServedRun run;
  reader.ListenToRefusals([&](const RefusedRequest& one) { run.refused.push_back(one); });
  ClientLog log(config.system.memory.block_size);
  const Deployment deployment = Resolve(config, costs);
  RunMetrics metrics(deployment, {.listeners = {&log}, .observers = {}});
  std::vector<RunObserver*> observers = {&log};
  observers.insert(observers.end(), metrics.observers().begin(), metrics.observers().end());
  run.replay = ReplayDecisions(reader, config, reader.header(), observers);
  if (run.replay.difference) return run;
  run.recorded = reader.end();
  run.complete = reader.complete();
  log.Tell(run);
  run.measured = metrics.Summarise();
  return run;
}

// The experiment of the record, changed to a simulated world without a boundary.
ExperimentConfig SimulationOf(ExperimentConfig config) {
  config.world = SimulatedWorldConfig{};
  config.system.boundary = sim::BoundaryConfig{};
  return config;
}

Summary SimulateServed(const ServedRun& run, const Deployment& deployment, RunControl& control) {
  RecordedArrivals arrivals(run.requests);
  sim::SimWorldOptions options = deployment.world;
  options.cancellable = true;
  sim::SimWorld simulated(arrivals, *deployment.cost, options);
  LeavingWorld leaving(simulated, run.departures);
  RunMetrics metrics(deployment, {});
  RecordingWorld world(leaving, metrics.observers());
  if (deployment.config.system.replicas == 1) {
    Serve(*MakeEngine(deployment), world);
  } else {
    Serve(*MakeCluster(deployment), world);
  }
  control.OnProgressEnd();
  return SumUp(deployment, metrics, Summary(), /*interrupted=*/false).summary;
}

}  // namespace

ServedRun ReadServedRun(const std::filesystem::path& run) {
  const std::filesystem::path file = RecordOf(run);
  RecordReader reader(file, RecordReader::WithoutEnd::kReadWhatIsThere);
  CostCache costs;
  return ReadServed(reader, ParseExperiment(reader.header().config, file.string(), run), costs);
}

std::vector<TracedRequest> OfferedRequests(const ServedRun& run) {
  std::vector<TracedRequest> offered = run.requests;
  for (const RefusedRequest& refused : run.refused) {
    offered.push_back({.arrival = refused.time,
                       .prompt_tokens = refused.prompt_tokens,
                       .output_tokens = refused.max_output_tokens,
                       .max_output_tokens = refused.max_output_tokens,
                       .priority = refused.priority,
                       .tenant = refused.tenant,
                       .session = refused.session,
                       .prefix_chunks = {}});
  }
  std::ranges::stable_sort(offered, {}, &TracedRequest::arrival);
  return offered;
}

ServedComparison CompareServedRun(const std::filesystem::path& run,
                                  std::span<const std::string> changes, RunControl& control) {
  const std::filesystem::path file = RecordOf(run);
  RecordReader reader(file, RecordReader::WithoutEnd::kReadWhatIsThere);
  ExperimentTemplate experiment =
      ExperimentTemplate::FromText(reader.header().config, file.string());
  const ExperimentConfig recorded = experiment.With({}, {});
  CostCache costs;
  ServedComparison comparison{
      .name = recorded.name, .served = ReadServed(reader, recorded, costs), .simulated = {}};
  if (comparison.served.replay.difference) return comparison;
  experiment.Change(changes, std::filesystem::current_path());
  const Deployment deployment = Resolve(SimulationOf(experiment.With({}, {})), costs);
  comparison.simulated = SimulateServed(comparison.served, deployment, control);
  return comparison;
}

std::string ServedComparisonJson(const ServedComparison& comparison) {
  const ServedRun& served = comparison.served;
  nlohmann::ordered_json json = {{"name", comparison.name},
                                 {"digest", served.replay.digest_text},
                                 {"digest_equal", !served.replay.difference},
                                 {"complete", served.complete},
                                 {"requests", served.requests.size()},
                                 {"departures", served.departures.size()},
                                 {"refused", served.refused.size()}};
  nlohmann::ordered_json& metrics = json["metrics"] = nlohmann::ordered_json::object();
  const std::array<NamedSummary, 2> runs = {NamedSummary{"served", &served.measured},
                                            NamedSummary{"simulated", &comparison.simulated}};
  for (const MetricRow& row : MetricRows(runs, HeadlineMetrics())) {
    const bool numbers = std::ranges::all_of(row.values, [](const SummaryValue* value) {
      return value != nullptr && !std::holds_alternative<std::string>(*value);
    });
    if (!numbers) continue;
    nlohmann::ordered_json& metric = metrics[row.name];
    metric["predicted"] = comparison.simulated.Number(row.name);
    metric["measured"] = served.measured.Number(row.name);
    metric["error_percent"] = nullptr;
    if (row.change_percent[1]) metric["error_percent"] = *row.change_percent[1];
  }
  return json.dump(2) + "\n";
}

}  // namespace twin::run
