#include "apps/validate/measured_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "core/hash.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "core/random.h"
#include "core/traced_request.h"
#include "traces/trace_writer.h"

namespace twin::apps {
namespace {

constexpr int kArrivalDraws = 20;

constexpr std::int32_t kChunkTokens = 16;  // of shared content: the usual size of KV blocks

template <class T>
void Shuffle(std::vector<T>& values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i) {
    const auto other =
        static_cast<std::size_t>(random.UniformInt(0, static_cast<std::int64_t>(i) - 1));
    std::swap(values[i - 1], values[other]);
  }
}

// As many requests as both histograms count.
std::vector<BenchmarkRequest> DrawnRequests(const BenchmarkRun& run) {
  std::vector<std::int32_t> prompts = CountsOf(run.histograms.at(kPromptHistogram));
  std::vector<std::int32_t> outputs = CountsOf(run.histograms.at(kOutputHistogram));
  Random random(prompts.size(), "pairs of lengths");
  Shuffle(prompts, random);
  Shuffle(outputs, random);
  std::vector<BenchmarkRequest> requests(std::min(prompts.size(), outputs.size()));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt_tokens = prompts[i];
    requests[i].output_tokens = outputs[i];
    requests[i].completed = true;
  }
  return requests;
}

// Names what the turns of conversations share. A turn whose prompt is too short to repeat all that
// was said begins anew.
class Conversations {
 public:
  void NameContent(std::uint64_t session, TracedRequest& request) {
    if (session == 0) return;
    Content& content = contents_[session];
    if (request.prompt_tokens < content.tokens) ++content.beginnings;
    content.tokens = request.prompt_tokens + request.output_tokens;
    const std::uint64_t name = MixWords(session, content.beginnings);
    request.session = session;
    for (std::int32_t i = 0; i < content.tokens / kChunkTokens; ++i) {
      request.prefix_chunks.push_back(MixWords(name, static_cast<std::uint64_t>(i)));
    }
    if (!request.prefix_chunks.empty()) request.prefix_chunk_tokens = kChunkTokens;
  }

 private:
  struct Content {
    std::int32_t tokens = 0;  // of the latest turn, with its answer
    std::uint64_t beginnings = 0;
  };
  std::map<std::uint64_t, Content> contents_;
};

// Gives all requests the same content up to a share of their prompts.
void ShareBeginning(double share, TracedRequest& request) {
  const auto chunks =
      static_cast<std::size_t>(share * double{1} * request.prompt_tokens / kChunkTokens);
  if (request.prefix_chunks.size() < chunks) request.prefix_chunks.resize(chunks);
  for (std::size_t i = 0; i < chunks; ++i) request.prefix_chunks[i] = MixWords(0, i);
  if (chunks > 0) request.prefix_chunk_tokens = kChunkTokens;
}

// Lengths: those of the file, or where it holds totals alone, those of its histograms, or their
// means.
void SetLengths(const BenchmarkRun& run, const std::filesystem::path& file, Replay& replay) {
  const auto set = [&](const std::string& field, const std::string& value) {
    replay.changes.push_back(fmt::format("workload.{}={}", field, value));
  };
  if (!run.requests.empty() || HasLengthHistograms(run)) {
    if (run.requests.empty()) replay.text += "; lengths by the histograms, in random pairs";
    set("trace.path", std::filesystem::absolute(file).lexically_normal().string());
    set("trace.format", "twin");
    return;
  }
  const double completed = run.totals.at("completed");
  const auto mean = [&](const char* total) {
    return std::to_string(
        std::max<std::int64_t>(std::llround(run.totals.at(total) / completed), 1));
  };
  set("shape.prompt.kind", "fixed");
  set("shape.prompt.value", mean("total_input_tokens"));
  set("shape.output.kind", "fixed");
  set("shape.output.value", mean("total_output_tokens"));
  set("requests", std::to_string(std::llround(completed)));
  replay.text += "; mean lengths";
}

void SetCap(const BenchmarkRun& run, Replay& replay) {
  if (!run.cap) return;
  replay.changes.push_back(fmt::format("workload.max_in_flight={}", *run.cap));
  replay.text += fmt::format(", at most {} in flight", *run.cap);
}

Replay WaitingUsers(std::int32_t users) {
  return {.text = fmt::format("{} clients who wait for their answers", users),
          .changes = {"workload.arrivals.kind=closed_loop",
                      fmt::format("workload.arrivals.users={}", users)}};
}

// The load of a run without times.
Replay DrawnLoad(const BenchmarkRun& run, const std::string& where) {
  const bool at_once = run.rate && std::isinf(*run.rate);
  if ((at_once || !run.rate) && run.cap) return WaitingUsers(*run.cap);
  if (at_once) return {.text = "all at once", .changes = {"workload.arrivals.kind=all_at_once"}};
  if (!run.rate) {
    throw InputError(InputError::Kind::kData, where,
                     fmt::format("{} says neither when its requests were sent nor how; allowed: "
                                 "with --rate R, the requests per second that its client was asked "
                                 "for, or --concurrency N",
                                 run.name));
  }
  Replay replay{.text = fmt::format("no start times: {} draws of arrivals at {}/s", kArrivalDraws,
                                    ShortestText(*run.rate)),
                .draws = kArrivalDraws};
  const bool poisson = run.burstiness == 1;
  replay.changes.push_back(fmt::format("workload.arrivals.kind={}", poisson ? "poisson" : "gamma"));
  replay.changes.push_back("workload.arrivals.rate=" + ShortestText(*run.rate));
  if (!poisson) {
    replay.changes.push_back("workload.arrivals.cv=" + ShortestText(1 / std::sqrt(run.burstiness)));
  }
  SetCap(run, replay);
  return replay;
}

}  // namespace

bool HasLengthHistograms(const BenchmarkRun& run) {
  return std::ranges::all_of(
      std::to_array({kPromptHistogram, kOutputHistogram}), [&](const char* key) {
        const auto found = run.histograms.find(key);
        return found != run.histograms.end() && !found->second.buckets.empty();
      });
}

std::vector<BenchmarkRequest> CompletedOf(std::span<const BenchmarkRequest> requests) {
  std::vector<BenchmarkRequest> completed;
  std::ranges::copy_if(requests, std::back_inserter(completed), &BenchmarkRequest::completed);
  std::ranges::stable_sort(completed, {}, [](const BenchmarkRequest& request) {
    return std::tuple(request.sent, request.prompt_tokens, request.output_tokens);
  });
  return completed;
}

MeasuredLoad PlanLoad(const BenchmarkRun& run, const std::filesystem::path& file,
                      const std::string& where) {
  MeasuredLoad load;
  load.file = file;
  if (!run.has_times) {
    load.replay = DrawnLoad(run, where);
  } else {
    load.replay = {.text = "recorded send times", .changes = {}, .paired = true};
    if (run.cap && run.rate && std::isinf(*run.rate)) {
      load.waiting = WaitingUsers(*run.cap);
    } else if (run.cap) {
      load.waiting = Replay{.text = "recorded send times", .changes = {}};
      SetCap(run, *load.waiting);
    }
  }
  SetLengths(run, file, load.replay);
  if (!run.histograms.empty()) load.replay.changes.emplace_back(kWithoutBoundary);
  if (load.waiting) SetLengths(run, file, *load.waiting);
  return load;
}

void WriteLoad(const BenchmarkRun& run, const std::filesystem::path& file, double shared) {
  if (run.requests.empty() && !HasLengthHistograms(run)) return;
  const std::vector<BenchmarkRequest> requests = run.requests.empty() ? DrawnRequests(run)
                                                 : run.has_times      ? CompletedOf(run.requests)
                                                                      : run.requests;
  TraceWriter writer(file.string(), run.has_times);
  Conversations conversations;
  for (const BenchmarkRequest& measured : requests) {
    if (!measured.completed) continue;
    TracedRequest request;
    request.arrival = measured.sent;
    request.prompt_tokens = measured.prompt_tokens;
    request.output_tokens = request.max_output_tokens = measured.output_tokens;
    conversations.NameContent(measured.session, request);
    if (shared > 0) ShareBeginning(shared, request);
    writer.Write(request);
  }
  writer.Commit();
}

}  // namespace twin::apps
