// The page of /metrics: names, types and labels as vLLM 0.33 and TGI 3.3 have them.
#include "apps/serve/metrics/front_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/support/scripted_service.h"

namespace twin::serve {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

class FrontMetricsTest : public testing::Test {
 protected:
  // The page of a front over `service_`.
  std::string Page(const FrontMetrics& metrics) const {
    const HttpCounts http;
    return metrics.Text(http);
  }
  // A sample of vLLM's.
  static std::string Sample(const std::string& name, const std::string& more,
                            const std::string& value) {
    return "\n" + name + "{engine=\"0\",model_name=\"model-a\"" + more + "} " + value + "\n";
  }
  static TimePoint At(Duration since_start) { return kTimeZero + since_start; }

  ScriptedService service_;
};

TEST_F(FrontMetricsTest, HasEveryNameThatDashboardsOfVllmAskFor) {
  const FrontMetrics metrics(service_);
  const std::string page = Page(metrics);
  const std::vector<std::string> types = {"num_requests_running gauge",
                                          "num_requests_waiting gauge",
                                          "num_requests_waiting_by_reason gauge",
                                          "kv_cache_usage_perc gauge",
                                          "cache_config_info gauge",
                                          "engine_sleep_state gauge",
                                          "prefix_cache_queries_total counter",
                                          "prefix_cache_hits_total counter",
                                          "external_prefix_cache_queries_total counter",
                                          "external_prefix_cache_hits_total counter",
                                          "mm_cache_queries_total counter",
                                          "mm_cache_hits_total counter",
                                          "num_preemptions_total counter",
                                          "prompt_tokens_total counter",
                                          "generation_tokens_total counter",
                                          "prompt_tokens_by_source_total counter",
                                          "prompt_tokens_cached_total counter",
                                          "prompt_tokens_cached_by_source_total counter",
                                          "request_success_total counter",
                                          "request_prompt_tokens histogram",
                                          "request_generation_tokens histogram",
                                          "request_max_num_generation_tokens histogram",
                                          "request_params_max_tokens histogram",
                                          "request_prefill_kv_computed_tokens histogram",
                                          "iteration_tokens_total histogram",
                                          "request_params_n histogram",
                                          "request_num_preemptions histogram",
                                          "time_to_first_token_seconds histogram",
                                          "inter_token_latency_seconds histogram",
                                          "request_time_per_output_token_seconds histogram",
                                          "e2e_request_latency_seconds histogram",
                                          "request_queue_time_seconds histogram",
                                          "request_prefill_time_seconds histogram",
                                          "request_decode_time_seconds histogram",
                                          "request_inference_time_seconds histogram"};
  for (const std::string& type : types) EXPECT_THAT(page, HasSubstr("# TYPE vllm:" + type + "\n"));
  EXPECT_THAT(page, HasSubstr("# TYPE http_request_duration_highr_seconds histogram\n"));
  // Features that this experiment does not have.
  EXPECT_THAT(page, Not(HasSubstr("spec_decode")));
  EXPECT_THAT(page, Not(HasSubstr("tgi_")));
}

TEST_F(FrontMetricsTest, TellsWhereThePromptTokensCameFrom) {
  service_.current.waiting = 5;
  service_.current.prompt_tokens = 100;
  service_.current.cached_prompt_tokens = 30;
  service_.current.cache_hit_tokens = 48;  // of admitted requests, some without a first token
  const FrontMetrics metrics(service_);
  const std::string page = Page(metrics);
  const auto part = [](const std::string& name, const std::string& source,
                       const std::string& value) {
    return Sample(name, ",source=\"" + source + "\"", value);
  };
  EXPECT_THAT(page, HasSubstr(Sample("vllm:prompt_tokens_total", "", "100.0")));
  EXPECT_THAT(page, HasSubstr(Sample("vllm:prompt_tokens_cached_total", "", "30.0")));
  const std::string by_source = "vllm:prompt_tokens_by_source_total";
  EXPECT_THAT(page, HasSubstr(part(by_source, "local_compute", "70.0")));
  EXPECT_THAT(page, HasSubstr(part(by_source, "local_cache_hit", "30.0")));
  EXPECT_THAT(page, HasSubstr(part(by_source, "external_kv_transfer", "0.0")));
  const std::string cached = "vllm:prompt_tokens_cached_by_source_total";
  EXPECT_THAT(page, HasSubstr(part(cached, "device", "48.0")));
  EXPECT_THAT(page, HasSubstr(part(cached, "disk", "0.0")));
  const std::string waiting = "vllm:num_requests_waiting_by_reason";
  EXPECT_THAT(page, HasSubstr("\n" + waiting + "{engine=\"0\",model_name=\"model-a\"," +
                              "reason=\"capacity\"} 5.0\n"));
  EXPECT_THAT(page, HasSubstr(Sample("vllm:engine_sleep_state", ",sleep_state=\"awake\"", "1.0")));
  EXPECT_THAT(page,
              HasSubstr(Sample("vllm:engine_sleep_state", ",sleep_state=\"discard_all\"", "0.0")));
}

TEST_F(FrontMetricsTest, CountsDraftsByTheirPlaceWhereTheExperimentSpeculates) {
  service_.served.drafts_max = 3;
  service_.current.drafts = {.drafts = 4, .tokens = 9, .accepted = 5, .accepted_at = {3, 2}};
  const FrontMetrics metrics(service_);
  const std::string page = Page(metrics);
  EXPECT_THAT(page, HasSubstr(Sample("vllm:spec_decode_num_drafts_total", "", "4.0")));
  EXPECT_THAT(page, HasSubstr(Sample("vllm:spec_decode_num_draft_tokens_total", "", "9.0")));
  EXPECT_THAT(page, HasSubstr(Sample("vllm:spec_decode_num_accepted_tokens_total", "", "5.0")));
  const std::string place = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
  EXPECT_THAT(page, HasSubstr(Sample(place, ",position=\"0\"", "3.0")));
  EXPECT_THAT(page, HasSubstr(Sample(place, ",position=\"1\"", "2.0")));
  EXPECT_THAT(page, HasSubstr(Sample(place, ",position=\"2\"", "0.0")));
}

// Two answers to a prompt of 100 tokens, 30 of them cached, with 7 and 4 tokens of at most 20.
TEST_F(FrontMetricsTest, ObservesWhatARequestAskedForAndTook) {
  FrontMetrics metrics(service_);
  run::GenerationEnd end{.generated_tokens = 7, .cached_prompt_tokens = 30};
  metrics.ObserveEnd({.end = end, .prompt_tokens = 100, .max_tokens = 20});
  end.generated_tokens = 4;
  end.reason = run::EndReason::kLength;
  metrics.ObserveEnd({.end = end, .prompt_tokens = 100, .max_tokens = 20});
  metrics.ObservePrompt(2, 7);
  const std::string page = Page(metrics);
  const std::string computed = "vllm:request_prefill_kv_computed_tokens";
  EXPECT_THAT(page, HasSubstr(Sample(computed + "_bucket", ",le=\"50.0\"", "0")));
  EXPECT_THAT(page, HasSubstr(Sample(computed + "_bucket", ",le=\"100.0\"", "2")));
  EXPECT_THAT(page, HasSubstr(Sample(computed + "_sum", "", "140.0")));
  EXPECT_THAT(page, HasSubstr(Sample("vllm:request_params_max_tokens_sum", "", "40.0")));
  EXPECT_THAT(page, HasSubstr(Sample("vllm:request_generation_tokens_sum", "", "11.0")));
  EXPECT_THAT(page, HasSubstr(Sample("vllm:request_max_num_generation_tokens_sum", "", "7.0")));
  EXPECT_THAT(page, HasSubstr(Sample("vllm:request_params_n_bucket", ",le=\"1.0\"", "0")));
  EXPECT_THAT(page, HasSubstr(Sample("vllm:request_params_n_bucket", ",le=\"2.0\"", "1")));
  const std::string success = "vllm:request_success_total";
  EXPECT_THAT(page, HasSubstr(Sample(success, ",finished_reason=\"length\"", "1.0")));
  EXPECT_THAT(page, HasSubstr(Sample(success, ",finished_reason=\"repetition\"", "0.0")));
}

TEST_F(FrontMetricsTest, ObservesHttpAsTheInstrumentationInFrontOfVllmDoes) {
  FrontMetrics metrics(service_);
  metrics.CountHttp({.route = "/health",
                     .method = "GET",
                     .status = 200,
                     .seconds = 0.3,
                     .request_bytes = 0,
                     .response_bytes = 120});
  metrics.CountHttp({.route = "/health",
                     .method = "GET",
                     .status = 503,
                     .seconds = 2,
                     .request_bytes = 10,
                     .response_bytes = 30});
  const std::string page = Page(metrics);
  const std::string labels = "{handler=\"/health\",method=\"GET\"";
  const std::vector<std::string> lines = {
      "# TYPE http_request_size_bytes summary\n"
      "http_request_size_bytes_sum{handler=\"/health\"} 10.0\n"
      "http_request_size_bytes_count{handler=\"/health\"} 2\n",
      "http_response_size_bytes_sum{handler=\"/health\"} 150.0\n",
      "http_requests_total" + labels + ",status=\"5xx\"} 1.0\n",
      "http_request_duration_seconds_bucket" + labels + ",le=\"0.1\"} 0\n",
      "http_request_duration_seconds_bucket" + labels + ",le=\"0.5\"} 1\n",
      "http_request_duration_seconds_bucket" + labels + ",le=\"1.0\"} 1\n",
      "http_request_duration_seconds_bucket" + labels + ",le=\"+Inf\"} 2\n",
      "http_request_duration_highr_seconds_bucket{le=\"0.25\"} 0\n",
      "http_request_duration_highr_seconds_bucket{le=\"0.5\"} 1\n",
      "http_request_duration_highr_seconds_bucket{le=\"2.0\"} 2\n",
      "http_request_duration_highr_seconds_sum 2.3\n"};
  for (const std::string& line : lines) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

class TgiMetricsTest : public FrontMetricsTest {
 protected:
  TgiMetricsTest() { service_.served.tgi = {.max_total_tokens = 1600, .max_waiting_tokens = 3}; }
  // A prefill that `admitted` requests join; `running` are in the batch then.
  static run::StepListener::Step Prefill(std::int64_t admitted, std::int64_t running) {
    return {.since_planned = 500ms,
            .since_started = 250ms,
            .prefill_tokens = 50,
            .requests = admitted,
            .admitted = admitted,
            .running = running};
  }
  static run::StepListener::Step Decode(std::int64_t running) {
    return {.since_planned = 125ms,
            .since_started = 125ms,
            .decode_tokens = running,
            .requests = running,
            .running = running};
  }
};

TEST_F(TgiMetricsTest, StandBesideThoseOfVllm) {
  service_.current.waiting = 4;
  service_.current.running = 2;
  service_.current.reserved_tokens = 320;
  const FrontMetrics metrics(service_);
  const std::string page = Page(metrics);
  EXPECT_THAT(page, HasSubstr("# TYPE tgi_queue_size gauge\ntgi_queue_size 4.0\n"));
  EXPECT_THAT(page, HasSubstr("tgi_batch_current_size 2.0\n"));
  EXPECT_THAT(page, HasSubstr("tgi_batch_current_max_tokens 320.0\n"));
  EXPECT_THAT(page, HasSubstr("tgi_batch_max_total_tokens 1600.0\n"));
  EXPECT_THAT(page, HasSubstr("# TYPE vllm:num_requests_running gauge\n"));
  EXPECT_THAT(page, HasSubstr("# TYPE tgi_request_count counter\n"));
  // The model's length is 1000: steps of a hundredth, of 999 for prompts.
  EXPECT_THAT(page, HasSubstr("tgi_request_input_length_bucket{le=\"9.99\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("tgi_request_max_new_tokens_bucket{le=\"1000.0\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("tgi_batch_next_size_bucket{le=\"1024.0\"} 0\n"));
}

TEST_F(TgiMetricsTest, CountCallsAndWhatMadeBatchesJoin) {
  FrontMetrics metrics(service_);
  metrics.OnStep(Prefill(2, 2));  // the first batch joins no other
  metrics.OnStep(Decode(2));
  metrics.OnStep(Prefill(1, 3));  // after one decode: enough waited
  metrics.OnStep(Decode(3));
  metrics.OnStep(Decode(3));
  metrics.OnStep(Prefill(1, 4));  // after two decodes: three tokens have passed
  metrics.OnStep({.since_planned = 1ms, .running = 4});  // releases blocks alone
  const std::string page = Page(metrics);
  for (const char* line : {"tgi_batch_inference_count{method=\"prefill\"} 3.0\n",
                           "tgi_batch_inference_success{method=\"decode\"} 3.0\n",
                           "tgi_batch_inference_duration_sum{method=\"prefill\"} 1.5\n",
                           "tgi_batch_forward_duration_sum{method=\"prefill\"} 0.75\n",
                           "tgi_batch_forward_duration_sum{method=\"decode\"} 0.375\n",
                           "tgi_batch_next_size_sum 4.0\n", "tgi_batch_next_size_count 3\n",
                           "tgi_batch_concat{reason=\"backpressure\"} 1.0\n",
                           "tgi_batch_concat{reason=\"wait_exceeded\"} 1.0\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

TEST_F(TgiMetricsTest, CallJoiningInAnyStepChunking) {
  service_.served.tgi->chunks_prefills = true;
  FrontMetrics metrics(service_);
  metrics.OnStep(Prefill(1, 3));
  EXPECT_THAT(Page(metrics), HasSubstr("tgi_batch_concat{reason=\"chunking\"} 1.0\n"));
}

// 0.5 s in the queue, then 2 s for 8 tokens; the front took 0.25 s before, 0.125 s of it reading.
TEST_F(TgiMetricsTest, ObserveWhereARequestSpentItsTime) {
  FrontMetrics metrics(service_);
  const run::GenerationEnd end{.reason = run::EndReason::kLength,
                               .arrived = At(1s),
                               .first_scheduled = At(1500ms),
                               .first_token = At(2s),
                               .last_token = At(3500ms),
                               .generated_tokens = 8};
  metrics.CountRequest();
  metrics.ObserveEnd(
      {.end = end, .prompt_tokens = 40, .max_tokens = 8, .front_s = 0.25, .validation_s = 0.125});
  run::GenerationEnd left;
  left.reason = run::EndReason::kCancelled;
  metrics.CountRequest();
  metrics.ObserveEnd({.end = left, .prompt_tokens = 40, .max_tokens = 8});
  metrics.CountRequest();
  metrics.CountInvalid();
  metrics.CountRequest();
  metrics.CountRejection("queue_full");
  const std::string page = Page(metrics);
  for (const char* line :
       {"tgi_request_count 4.0\n", "tgi_request_success 1.0\n",
        "tgi_request_failure{err=\"dropped\"} 1.0\n",
        "tgi_request_failure{err=\"validation\"} 1.0\n",
        "tgi_request_failure{err=\"overloaded\"} 1.0\n", "tgi_request_queue_duration_sum 0.5\n",
        "tgi_request_inference_duration_sum 2.0\n", "tgi_request_validation_duration_sum 0.125\n",
        "tgi_request_duration_sum 2.75\n", "tgi_request_mean_time_per_token_duration_sum 0.25\n",
        "tgi_request_generated_tokens_sum 8.0\n", "tgi_request_input_length_sum 80.0\n",
        "tgi_request_duration_bucket{le=\"0.00015000000000000001\"} 0\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

}  // namespace
}  // namespace twin::serve
