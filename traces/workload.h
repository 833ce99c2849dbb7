// What a run is asked to do: requests from a trace, from ServeGen's clients or drawn.
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
  Duration start{0};        // rows before it are left out, and it becomes time zero
  Duration duration{0};     // rows from start + duration on are left out; 0 = to the end
  double rate_scale = 1;    // 2 = arrivals twice as fast
  std::int32_t repeat = 1;  // passes; each begins one mean gap after the last arrival and shares
                            // no content with the others
  bool operator==(const TraceConfig&) const = default;
};

// Clients of ServeGen (arXiv:2505.09999): arrivals in 600-s windows, lengths in 6-h windows.
struct ServeGenConfig {
  // One uniform number draws all lengths of a request (ServeGen's own sampler), or one each; the
  // true dependence is not published.
  enum class Dependence : std::uint8_t { kComonotone, kIndependent };
  // A client with arrivals but no lengths uses those of another, drawn once from the seed, or its
  // requests are left out.
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

// The client's limit on the output.
struct MaxOutputRule {
  enum class Kind : std::uint8_t {
    kEqual,   // what the trace says, else the output length
    kFixed,   // `tokens`; a longer output is cut there
    kFactor,  // `factor` times the output, rounded up
  };
  Kind kind = Kind::kEqual;
  std::int32_t tokens = 0;
  double factor = 1;

  bool operator==(const MaxOutputRule&) const = default;
};

// Who foretells output lengths to the policy.
struct PredictionConfig {
  enum class Kind : std::uint8_t {
    kNone,       // what the trace says, else nobody
    kOracle,     // the truth
    kLogNormal,  // the truth times exp(sigma * standard normal)
  };
  Kind kind = Kind::kNone;
  double sigma = 0;

  bool operator==(const PredictionConfig&) const = default;
};

struct TenantConfig {
  double weight = 1;
  std::optional<IntegerDistribution> prompt{};  // else the shape's
  std::optional<IntegerDistribution> output{};
  std::optional<std::int32_t> priority{};

  bool operator==(const TenantConfig&) const = default;
};

// System prompts in front of the drawn prompt, their popularity Zipf.
struct SharedPrefixConfig {
  std::int32_t prompts = 0;  // 0 = none
  std::int32_t tokens = 0;
  double zipf_exponent = 1;

  bool operator==(const SharedPrefixConfig&) const = default;
};

// Conversations: turn k+1 is sent a think time after turn k is done; its prompt is everything that
// was said, plus a newly drawn one. An arrival process then times the first turns.
struct SessionConfig {
  IntegerDistribution turns{};  // kNone = one, no session
  DurationDistribution think{};
  std::int32_t context_tokens_max = 0;  // ends the session before a turn that passes it; 0 = none

  bool operator==(const SessionConfig&) const = default;
};

// What drawn requests look like. Tenants are numbered through all shapes of a workload in order; a
// shape without a list counts as one.
struct RequestShape {
  IntegerDistribution prompt{};
  IntegerDistribution output{};
  std::vector<TenantConfig> tenants{};
  std::int32_t priority = 0;
  SharedPrefixConfig shared_prefix{};
  SessionConfig sessions{};
  // Size of the chunks that name content. Chunks are given where prefixes or sessions are, for the
  // prompt and on through the output (whole chunks only): turn k+1 hits all of turn k.
  std::int32_t prefix_chunk_tokens = 16;

  bool operator==(const RequestShape&) const = default;
};

struct WorkloadClass {
  std::string name{};
  double weight = 1;                        // among classes without arrivals of their own
  std::optional<ArrivalConfig> arrivals{};  // an independent stream, merged with the others
  RequestShape shape{};

  bool operator==(const WorkloadClass&) const = default;
};

// Lengths fixed by mean and median (log-normal, sigma = sqrt(2 ln(mean/median)), clipped at 16384)
// of the Azure LLM traces of 2023, after Splitwise (ISCA 2024).
enum class WorkloadPreset : std::uint8_t {
  kNone,
  kConversation,  // prompt mean 1155, median 1020; output mean 211, median 129
  kCode,          // prompt mean 2048, median 1469; output mean 27.9, median 13
};

// Requests come from `trace`, from `servegen`, or are drawn from `shape`, `preset` or `classes`.
struct WorkloadConfig {
  std::int64_t requests = 0;  // how many; 0 = all of the trace, or until `duration`
  Duration duration{0};       // no arrival at or after it; 0 = no limit
  std::optional<TraceConfig> trace{};
  std::optional<ServeGenConfig> servegen{};
  ArrivalConfig arrivals{};  // replaces a trace's own, gives a lengths-only trace one
  WorkloadPreset preset = WorkloadPreset::kNone;
  RequestShape shape{};
  std::vector<WorkloadClass> classes{};
  MaxOutputRule max_output{};
  PredictionConfig prediction{};
  std::int32_t max_in_flight = 0;  // hold arrivals back while so many are in the system; 0 = no cap

  bool operator==(const WorkloadConfig&) const = default;
};

// Throws InputError (kUsage) naming the field by its path, as in "workload.arrivals.rate".
void Validate(const WorkloadConfig& config);

// The workload's requests; equal configs and seeds give equal requests, and what the k-th drawn
// conversation says does not depend on when others are done. Validates. Throws InputError, here or
// later from Peek() when a trace turns out bad. Memory: constant, plus what is outstanding where
// completions matter (sessions, closed loops, several arrival streams).
std::unique_ptr<ArrivalSource> MakeWorkload(const WorkloadConfig& config, std::uint64_t seed);

}  // namespace twin
