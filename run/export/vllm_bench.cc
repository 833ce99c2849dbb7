#include "run/export/vllm_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <map>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/files/output_file.h"
#include "core/input_error.h"
#include "run/deployed_groups.h"
#include "run/measured_run.h"
#include "run/record/request_tracker.h"
#include "run/record/run_listener.h"
#include "run/run_metrics.h"

namespace twin::run {
namespace {

using Json = nlohmann::ordered_json;

struct ServedRequest {
  RequestLife life;
  std::vector<TimePoint> tokens;  // when each became visible
};

// Collects every request with the times of its tokens.
class TokenTimes final : public RunObserver, public RunListener {
 public:
  explicit TokenTimes(Delivery delivery) : delivery_(delivery) {}

  void OnInstant(const Instant& instant) override {
    for (const Event& event : instant.events) {
      if (const auto* finished = std::get_if<StepFinished>(&event)) Take(instant.now, *finished);
    }
  }
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override { in_flight_.push_back(&plan); }

  void OnArrived(TimePoint /*now*/, const RequestLife& life) override {
    requests_[Index(life.id)].life = life;
  }
  void OnEnded(const RequestLife& life) override {
    ServedRequest& request = requests_[Index(life.id)];
    request.life = life;
    if (delivery_ == Delivery::kBatchEnd && life.has_tokens()) {
      request.tokens.assign(static_cast<std::size_t>(life.output_tokens), life.ended);
    }
  }

  // Requests inside the measured window, by number.
  [[nodiscard]] std::vector<const ServedRequest*> Measured() {
    std::vector<const ServedRequest*> measured;
    for (auto& [id, request] : requests_) {
      if (!request.life.measured) continue;
      // Steps that were in flight when the request ended brought tokens that were dropped.
      const auto tokens = static_cast<std::size_t>(request.life.output_tokens);
      request.tokens.resize(std::min(request.tokens.size(), tokens));
      measured.push_back(&request);
    }
    return measured;
  }

 private:
  void Take(TimePoint now, const StepFinished& finished) {
    const StepPlan& plan = *in_flight_[returned_++];
    if (delivery_ == Delivery::kBatchEnd) return;
    const ItemOutcome* outcome = finished.outcomes.data();
    const ItemOutcome* const end = outcome + finished.outcomes.size();
    for (const WorkItem& item : plan.work) {
      std::int32_t emitted = item.emits ? 1 : 0;
      const bool exception = outcome != end && outcome->request == item.request;
      if (exception) emitted = (outcome++)->emitted_tokens;
      ServedRequest& request = requests_[Index(item.request)];
      request.tokens.insert(request.tokens.end(), static_cast<std::size_t>(emitted), now);
    }
  }

  Delivery delivery_;
  std::map<std::uint32_t, ServedRequest> requests_;
  std::vector<const StepPlan*> in_flight_;  // all plans, in order
  std::size_t returned_ = 0;
};

double NumberOrZero(const Summary& summary, const std::string& name) {
  if (summary.Find(name) == nullptr) return 0;
  const double value = summary.Number(name);
  return std::isfinite(value) ? value : 0;
}

// null: no client could measure it, or no request completed.
Json NumberOrNull(const Summary& summary, const std::string& name) {
  if (summary.Find(name) == nullptr) return {};
  const double value = summary.Number(name);
  return std::isfinite(value) ? Json(value) : Json();
}

std::int64_t CountOf(const Summary& summary, const std::string& name) {
  return static_cast<std::int64_t>(NumberOrZero(summary, name));
}

std::string LocalDate() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &local);
  return {text.data(), size};
}

// The rate that was asked for, or the arrivals' own; "inf" if all came at once.
Json RequestRate(const ArrivalConfig& arrivals, std::span<const ServedRequest* const> requests) {
  using Kind = ArrivalConfig::Kind;
  if (arrivals.kind == Kind::kClosedLoop || arrivals.kind == Kind::kAllAtOnce) return "inf";
  if (arrivals.kind == Kind::kRamp) return arrivals.rate_to;
  if (arrivals.rate > 0) return arrivals.rate;
  if (requests.size() < 2) return "inf";
  const double seconds = Seconds(requests.back()->life.arrival - requests.front()->life.arrival);
  return seconds > 0 ? Json(static_cast<double>(requests.size() - 1) / seconds) : Json("inf");
}

void AddIdentityAndLoad(Json& json, const ExperimentConfig& config, const RecordHeader& header,
                        std::span<const ServedRequest* const> requests) {
  using Kind = ArrivalConfig::Kind;
  const ArrivalConfig& arrivals = config.workload.arrivals;
  json["date"] = LocalDate();
  json["endpoint_type"] = "twinserve";
  json["backend"] = "twinserve";
  json["label"] = nullptr;
  json["model_id"] = config.system.model.empty() ? config.name : config.system.model;
  json["tokenizer_id"] = json["model_id"];
  json["num_prompts"] = requests.size();
  json["policy"] = header.policy;
  json["request_rate"] = RequestRate(arrivals, requests);
  if (arrivals.kind == Kind::kGamma) {
    json["burstiness"] = 1 / (arrivals.cv * arrivals.cv);  // the shape of the gaps
  } else {
    const bool poisson = arrivals.kind == Kind::kPoisson || arrivals.kind == Kind::kRamp;
    json["burstiness"] = poisson ? Json(1.0) : Json();
  }
  const std::int32_t in_flight =
      arrivals.kind == Kind::kClosedLoop ? arrivals.users : config.workload.max_in_flight;
  json["max_concurrency"] = in_flight > 0 ? Json(in_flight) : Json();
  const bool ramp = arrivals.kind == Kind::kRamp;
  json["ramp_up_strategy"] = ramp ? Json("linear") : Json();
  json["ramp_up_start_rps"] = ramp ? Json(arrivals.rate) : Json();
  json["ramp_up_end_rps"] = ramp ? Json(arrivals.rate_to) : Json();
  json["rps_change_events"] = Json::array();
}

bool Completed(const ServedRequest& request) {
  return request.life.status == RequestStatus::kCompleted;
}

// Tokens and requests in each second since the first arrival of a completed request; a request
// counts in every second that it touches.
void AddPeaks(Json& json, std::span<const ServedRequest* const> requests) {
  TimePoint first = TimePoint::max();
  for (const ServedRequest* request : requests) {
    if (Completed(*request)) first = std::min(first, request->life.arrival);
  }
  std::map<std::int64_t, std::int64_t> tokens;
  std::map<std::int64_t, std::int64_t> changes;  // of the requests in a second, at its begin
  const auto second = [first](TimePoint time) { return (time - first).count() / 1'000'000'000; };
  for (const ServedRequest* request : requests) {
    if (!Completed(*request)) continue;
    for (const TimePoint time : request->tokens) {
      ++tokens[second(time + request->life.response_delay)];
    }
    ++changes[second(request->life.arrival)];
    --changes[second(request->life.last_received()) + 1];
  }
  std::int64_t most_tokens = 0;
  for (const auto& [time, count] : tokens) most_tokens = std::max(most_tokens, count);
  std::int64_t most_requests = 0;
  std::int64_t running = 0;
  for (const auto& [time, change] : changes) {
    most_requests = std::max(most_requests, running += change);
  }
  json["max_output_tokens_per_s"] = static_cast<double>(most_tokens);
  json["max_concurrent_requests"] = most_requests;
}

void AddTotals(Json& json, const Summary& summary, std::span<const ServedRequest* const> requests) {
  const std::int64_t completed = CountOf(summary, "completed");
  json["duration"] = NumberOrZero(summary, "duration_seconds");
  json["completed"] = completed;
  json["failed"] = static_cast<std::int64_t>(requests.size()) - completed;
  json["total_input_tokens"] = CountOf(summary, "total_input_tokens");
  json["total_output_tokens"] = CountOf(summary, "total_output_tokens");
  json["request_throughput"] = NumberOrZero(summary, "request_throughput");
  json["request_goodput"] = NumberOrNull(summary, "request_goodput");
  json["output_throughput"] = NumberOrZero(summary, "output_throughput");
  json["total_token_throughput"] = NumberOrZero(summary, "total_token_throughput");
  json["rtfx"] = 0.0;
  AddPeaks(json, requests);
  constexpr std::array kStatistics = {"mean", "median", "std", "p50", "p90", "p95", "p99"};
  for (const char* latency : {"ttft", "tpot", "itl", "e2el"}) {
    for (const char* statistic : kStatistics) {
      const std::string name = fmt::format("{}_{}_ms", statistic, latency);
      json[name] = NumberOrNull(summary, name);
    }
  }
  for (const char* statistic : kStatistics) {
    const std::string wait = fmt::format("{}_client_queue_time_ms", statistic);
    const std::string whole = fmt::format("{}_e2el_including_client_queue_ms", statistic);
    const bool waits = summary.Find(wait) != nullptr;
    json[wait] = waits ? NumberOrNull(summary, wait) : Json(0.0);
    json[whole] = NumberOrNull(summary, waits ? whole : fmt::format("{}_e2el_ms", statistic));
  }
}

std::string ErrorOf(const RequestLife& life) {
  switch (life.status) {
    case RequestStatus::kCompleted:
      return "";
    case RequestStatus::kRejected:
      return fmt::format("rejected: {}",
                         kRejectReasonNames[static_cast<std::size_t>(life.reject_reason)]);
    case RequestStatus::kCancelled:
      return "cancelled";
    default:
      return "unfinished";
  }
}

// `streamed`: answers come token by token, so that clients can measure the time between tokens.
void AddLists(Json& json, std::span<const ServedRequest* const> requests, VllmDetail detail,
              bool streamed) {
  std::vector<double> latencies;
  std::vector<double> waits;
  for (const ServedRequest* request : requests) {
    const RequestLife& life = request->life;
    latencies.push_back(Completed(*request) ? Seconds(life.last_received() - life.arrival) : 0);
    waits.push_back(Seconds(life.client_wait));
  }
  json["latencies"] = latencies;
  json["queue_times"] = waits;
  if (detail == VllmDetail::kTotals) return;
  for (const char* name : {"input_lens", "output_lens", "ttfts", "itls", "start_times",
                           "server_queue_times", "server_ttfts", "generated_texts", "errors"}) {
    json[name] = Json::array();
  }
  for (const ServedRequest* request : requests) {
    const RequestLife& life = request->life;
    const bool completed = Completed(*request);
    const double ttft =
        completed && life.has_tokens() ? Seconds(life.first_received() - life.arrival) : 0;
    const bool scheduled = life.scheduled != kTimeNever;
    std::vector<double> gaps;
    for (std::size_t i = 1; completed && streamed && i < request->tokens.size(); ++i) {
      gaps.push_back(Seconds(request->tokens[i] - request->tokens[i - 1]));
    }
    const double queue = scheduled ? Seconds(life.scheduled - life.arrival) : 0;
    json["input_lens"].push_back(life.prompt_tokens);
    json["output_lens"].push_back(completed ? life.output_tokens : 0);
    json["ttfts"].push_back(ttft);
    json["itls"].push_back(gaps);
    json["start_times"].push_back(Seconds(life.arrival));
    json["server_queue_times"].push_back(queue);
    json["server_ttfts"].push_back(ttft);
    json["generated_texts"].push_back("");
    json["errors"].push_back(ErrorOf(life));
  }
}

}  // namespace

std::string VllmBenchJson(const ExperimentConfig& config, const RecordHeader& header,
                          const RecordedRun& events, const Summary& summary, VllmDetail detail) {
  TokenTimes times(header.delivery);
  RunListener* const listeners[] = {&times};
  RequestTracker tracker(TrackerConfigOf(config, EnginesOf(config, header), header.delivery),
                         listeners);
  RunObserver* const observers[] = {&tracker, &times};
  NotifyObservers(events, observers);
  const std::vector<const ServedRequest*> requests = times.Measured();
  Json json;
  AddIdentityAndLoad(json, config, header, requests);
  AddTotals(json, summary, requests);
  AddLists(json, requests, detail, header.delivery == Delivery::kPerStep);
  return json.dump() + "\n";
}

void ExportVllmBench(const std::filesystem::path& run, const Summary& summary, VllmDetail detail) {
  const std::filesystem::path record = run / "record.pb";
  if (!std::filesystem::exists(record)) {
    throw InputError(InputError::Kind::kUsage, run.string(),
                     "has no record.pb to export from; allowed: runs with outputs.record");
  }
  RecordReader reader(record);
  const ExperimentConfig config =
      ParseExperiment(reader.header().config, record.string() + ": config", run);
  RecordedRun events;
  ReadEvents(reader, events);
  WriteFile(run / "vllm_bench.json",
            VllmBenchJson(config, reader.header(), events, summary, detail));
}

}  // namespace twin::run
