// A run of a server as a benchmark tool or a log of requests describes it: the load, the times that
// its clients measured, and what the file says of the server.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/time.h"
#include "traces/bucket_histogram.h"

namespace twin {

// Times are the client's. Without tokens, a failed request may lack its lengths (0).
struct BenchmarkRequest {
  TimePoint sent;  // since the first request was sent; zero in a run without times
  std::int32_t prompt_tokens = 0;
  std::int32_t output_tokens = 0;
  bool completed = false;
  bool without_output = false;     // not completed, for no other reason than that it has no token
  std::optional<Duration> ttft{};  // until its first token
  std::optional<Duration> e2e{};   // until its last token
  // From its arrival at the engine to the first step with it, as the server measured it.
  std::optional<Duration> waiting{};
  // `e2e` by another number of the file, which must agree with it. Set while a file is read.
  std::optional<Duration> stated_e2e{};
  std::vector<Duration> gaps{};  // between its tokens, or between chunks of tokens
  bool one_piece = false;        // its tokens came at once: no time was measured between them
  std::uint64_t session = 0;     // the turns of one conversation share it; 0: none

  // Enters the mean time between its tokens, which gives the end from the first token, and the
  // first token from the end.
  void SetPace(const std::optional<Duration>& pace);

  bool operator==(const BenchmarkRequest&) const = default;
};

// A fact about the server that the file names: an option of this program ("--model", "--tp"), one
// of the names below, or else a key as the file has it, such as a flag of the server.
struct ServerFact {
  std::string option;
  std::string value;
  std::string origin;  // the key in the file

  bool operator==(const ServerFact&) const = default;
};
inline constexpr const char* kFactKvBlocks = "KV blocks";
inline constexpr const char* kFactKvTokens = "KV tokens";
// Lengths among BenchmarkRun::histograms.
inline constexpr const char* kPromptHistogram = "prompt_tokens";
inline constexpr const char* kOutputHistogram = "output_tokens";
// Seconds from the first sending to the last token, among BenchmarkRun::totals.
inline constexpr const char* kDurationTotal = "duration_seconds";

// Parts of the mean TTFT in ms.
struct TtftParts {
  std::optional<double> waiting_ms{};   // as BenchmarkRequest::waiting
  std::optional<double> prefill_ms{};   // from there to the first token, as the engine sees it
  std::optional<double> boundary_ms{};  // the rest: the way to the engine and back
};

struct BenchmarkRun {
  std::string name;    // the file's name, with a number if the file holds several runs
  std::string format;  // "vLLM bench"
  bool has_times = false;
  bool lists_gaps = false;  // of each request that completed: one without gaps came in one piece
  // In order of sending; without times in order of the file. Empty if the file holds totals alone.
  std::vector<BenchmarkRequest> requests;
  // The load that the client was asked for.
  std::optional<double> rate{};       // requests per second; infinite: all at once
  double burstiness = 1;              // shape of the gaps, 1 = Poisson
  std::optional<std::int32_t> cap{};  // most requests in flight
  std::vector<ServerFact> facts;      // each option once
  // Numbers of the run as a whole, by their keys in summary.json (mean_ttft_ms), and
  // total_input_tokens, total_output_tokens, completed, failed, kDurationTotal.
  std::map<std::string, double> totals;
  // In a run of totals: latencies in ms by their names ("ttft"), and lengths.
  std::map<std::string, BucketHistogram> histograms{};
  TtftParts ttft_parts{};            // where the file has them for the run as a whole
  std::vector<std::string> notes{};  // what else the file says of the run, a sentence each

  [[nodiscard]] std::int64_t failed() const;
};

// (last - first token) / (tokens - 1); nullopt without these times, for a single token, and for an
// answer in one piece.
std::optional<double> TpotMs(const BenchmarkRequest& request);

// Reads vLLM's and SGLang's benchmark results, AIPerf's profile_export.jsonl (with
// profile_export_aiperf.json beside it, if that exists) or the latter alone, inference-perf's
// per_request_lifecycle_metrics.json, guidellm's benchmarks.json, and logs of requests in CSV or
// JSON. A folder stands for AIPerf's files in it. Several results in one file are several runs.
// Requests of a warm-up are left out. The runs keep the rules of measured_rules.h. Throws
// InputError (data): file, line, field, what is wrong, what is allowed; also if no request
// completed, and for a trace without measured times, whose format it names.
std::vector<BenchmarkRun> ReadBenchmarkRuns(const std::string& asked);

}  // namespace twin
