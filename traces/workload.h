// Configuration of a workload: requests from a trace, from ServeGen's clients, or drawn.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/arrival_source.h"
#include "core/time.h"
#include "traces/distribution_config.h"
#include "traces/trace_reader.h"

namespace twin {

struct TraceConfig {
  std::string path{};
  std::string format{};     // empty = recognised from the content
  TraceReadOptions read{};  // filters, failed rows
  Duration start{0};        // earlier rows are left out; becomes time zero
  Duration duration{0};     // later rows are left out; 0 = to the end
  double rate_scale = 1;    // 2 = arrivals twice as fast
  std::int32_t repeat = 1;  // passes; each starts one mean gap after the last arrival and
                            // shares no content with other passes
  bool operator==(const TraceConfig&) const = default;
};

// Clients of ServeGen (arXiv:2505.09999): arrivals in 600-s windows, lengths in 6-h windows.
struct ServeGenConfig {
  // kComonotone: one uniform number determines all lengths of a request, as in ServeGen's sampler.
  // kIndependent: one number per field. The true dependence is not published.
  enum class Dependence : std::uint8_t { kComonotone, kIndependent };
  // Clients with arrivals but no lengths: kBorrow uses the lengths of another client, drawn once
  // from the seed; kSkip leaves their requests out.
  enum class MissingLengths : std::uint8_t { kBorrow, kSkip };

  std::string arrivals_path{};
  std::string lengths_path{};
  std::vector<std::uint32_t> clients{};  // empty = all
  Duration start{0};
  Duration duration{0};  // 0 = to the end
  double rate_scale = 1;
  Dependence dependence = Dependence::kComonotone;
  MissingLengths missing_lengths = MissingLengths::kBorrow;

  bool operator==(const ServeGenConfig&) const = default;
};

// The client's limit on the number of output tokens.
struct MaxOutputRule {
  enum class Kind : std::uint8_t {
    kEqual,   // the trace's limit if it has one, otherwise the output length
    kFixed,   // `tokens`; longer outputs are cut
    kFactor,  // `factor` times the output, rounded up
  };
  Kind kind = Kind::kEqual;
  std::int32_t tokens = 0;
  double factor = 1;

  bool operator==(const MaxOutputRule&) const = default;
};

// The predicted output length that the policy sees.
struct PredictionConfig {
  enum class Kind : std::uint8_t {
    kNone,       // the trace's prediction if it has one
    kOracle,     // the true length
    kLogNormal,  // the true length times exp(sigma * standard normal)
  };
  Kind kind = Kind::kNone;
  double sigma = 0;

  bool operator==(const PredictionConfig&) const = default;
};

struct TenantConfig {
  double weight = 1;
  std::optional<IntegerDistribution> prompt{};  // empty = the shape's
  std::optional<IntegerDistribution> output{};
  std::optional<std::int32_t> priority{};

  bool operator==(const TenantConfig&) const = default;
};

// System prompts in front of the drawn prompt; their popularity is Zipf-distributed.
struct SharedPrefixConfig {
  std::int32_t prompts = 0;  // 0 = none
  std::int32_t tokens = 0;
  double zipf_exponent = 1;

  bool operator==(const SharedPrefixConfig&) const = default;
};

// Conversations. Turn k+1 is sent a think time after turn k completes; its prompt is the whole
// conversation so far plus a new prompt. The arrival process determines the first turns.
struct SessionConfig {
  IntegerDistribution turns{};  // kNone = one turn, no session
  DurationDistribution think{};
  std::int32_t context_tokens_max = 0;  // a turn beyond it ends the session; 0 = no limit

  bool operator==(const SessionConfig&) const = default;
};

// Distribution of drawn requests. Tenants are numbered over all shapes of a workload in order; a
// shape without tenants has one.
struct RequestShape {
  IntegerDistribution prompt{};
  IntegerDistribution output{};
  std::vector<TenantConfig> tenants{};
  std::int32_t priority = 0;
  SharedPrefixConfig shared_prefix{};
  SessionConfig sessions{};
  // Tokens per prefix chunk. Requests have chunks if the shape has shared prefixes or sessions.
  // Whole chunks cover prompt and output, so that turn k+1 can hit all of turn k.
  std::int32_t prefix_chunk_tokens = 16;

  bool operator==(const RequestShape&) const = default;
};

struct WorkloadClass {
  std::string name{};
  double weight = 1;                        // relative to classes without own arrivals
  std::optional<ArrivalConfig> arrivals{};  // own, independent arrival process
  RequestShape shape{};

  bool operator==(const WorkloadClass&) const = default;
};

// Log-normal lengths with the mean and median of the Azure LLM traces of 2023 (Splitwise, ISCA
// 2024): sigma = sqrt(2 ln(mean/median)), clipped at 16384.
enum class WorkloadPreset : std::uint8_t {
  kNone,
  kConversation,  // prompt mean 1155, median 1020; output mean 211, median 129
  kCode,          // prompt mean 2048, median 1469; output mean 27.9, median 13
};

// Set exactly one of `trace`, `servegen`, or (drawn requests) `shape`, `preset`, `classes`.
struct WorkloadConfig {
  std::int64_t requests = 0;  // number of requests; 0 = the whole trace, or until `duration`
  Duration duration{0};       // no arrival at or after it; 0 = no limit
  std::optional<TraceConfig> trace{};
  std::optional<ServeGenConfig> servegen{};
  ArrivalConfig arrivals{};  // replaces a trace's arrivals; required for traces of lengths
  WorkloadPreset preset = WorkloadPreset::kNone;
  RequestShape shape{};
  std::vector<WorkloadClass> classes{};
  MaxOutputRule max_output{};
  PredictionConfig prediction{};
  std::int32_t max_in_flight = 0;  // delay arrivals beyond this many outstanding; 0 = no cap
  // Request i, counted from 0 in order of arrival, has the content of prompt i mod prompt_pool:
  // load generators send a list of prompts in turn. 0 = content as the requests say.
  std::int32_t prompt_pool = 0;

  bool operator==(const WorkloadConfig&) const = default;
};

// Throws InputError (kUsage) that names the field by its path, such as "workload.arrivals.rate".
void Validate(const WorkloadConfig& config);

// Throws InputError (kUsage) that names what is wrong below `field`, or that it is missing.
void ValidateInteger(const std::string& field, const IntegerDistribution& d);

// Facts about the trace that a run reads. Filled in while the trace is read, and complete once the
// workload has ended. A repeated trace is reported on by its first pass.
struct TraceReport {
  TraceReadCounts counts;
  bool may_be_cut = false;  // the file ends within a line
  std::string note;         // TraceReader::note()
};

// Seeds of the parts of a workload. Those of an experiment are equal: streams differ by their
// names.
struct WorkloadSeeds {
  WorkloadSeeds() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): an experiment's seed is that of all parts.
  WorkloadSeeds(std::uint64_t seed) : arrivals(seed), content(seed), predictions(seed) {}

  std::uint64_t arrivals = 0;
  std::uint64_t content = 0;      // lengths, sessions, think times
  std::uint64_t predictions = 0;  // errors of predicted lengths

  bool operator==(const WorkloadSeeds&) const = default;
};

// Validates the config and creates its requests. Equal configs and seeds give equal requests; the
// k-th drawn conversation does not depend on when other ones complete. Throws InputError, here or
// from Peek() if a trace is bad. Memory: constant, plus outstanding requests for sessions, closed
// loops and several arrival streams.
std::unique_ptr<ArrivalSource> MakeWorkload(const WorkloadConfig& config,
                                            const WorkloadSeeds& seeds,
                                            TraceReport* report = nullptr);

}  // namespace twin
