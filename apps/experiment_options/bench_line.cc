#include "apps/experiment_options/bench_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "apps/experiment_options/line_options.h"
#include "apps/experiment_options/shell_commands.h"
#include "config/servers/servers.h"
#include "core/input_error.h"
#include "core/printable.h"
#include "core/split_text.h"

namespace twin::apps {
namespace {

constexpr const char* kBench = "--bench";

struct DefaultOption {
  ExperimentOption which;
  std::string_view value;
};

// A load generator.
struct LoadGenerator {
  std::string_view programs;  // that start it, separated by |
  const Server* lengths;      // whose rule of --random-range-ratio it follows; null: it has none
  std::optional<DefaultOption> load;  // without a rate and users; nullopt: they must be given
  std::span<const DefaultOption> requests;
  std::span<const DefaultOption> shape;  // unless lengths or a trace are given
};

constexpr DefaultOption kAtOnce = {ExperimentOption::kRate, "inf"};
constexpr DefaultOption kOneUser = {ExperimentOption::kConcurrency, "1"};
constexpr DefaultOption kThousand[] = {{ExperimentOption::kRequests, "1000"}};
constexpr DefaultOption kOfVllm[] = {{ExperimentOption::kInputLen, "1024"},
                                     {ExperimentOption::kOutputLen, "128"}};
constexpr DefaultOption kOfInferenceX[] = {{ExperimentOption::kInputLen, "1024"},
                                           {ExperimentOption::kOutputLen, "128"},
                                           {ExperimentOption::kRangeRatio, "1"}};
constexpr DefaultOption kOfSglang[] = {{ExperimentOption::kInputLen, "1024"},
                                       {ExperimentOption::kOutputLen, "1024"},
                                       {ExperimentOption::kRangeRatio, "0"}};
constexpr DefaultOption kOfAiPerf[] = {{ExperimentOption::kInputLen, "550"}};

constexpr LoadGenerator kGenerators[] = {
    // InferenceX's copy keeps the rule that vLLM had before.
    {"bench_serving/benchmark_serving.py", &kSglangServer, kAtOnce, kThousand, kOfInferenceX},
    {"vllm bench serve|benchmark_serving.py|tensorrt_llm.serve.scripts.benchmark_serving",
     &kVllmServer, kAtOnce, kThousand, kOfVllm},
    {"sglang.bench_serving|bench_serving.py", &kSglangServer, kAtOnce, kThousand, kOfSglang},
    {"aiperf profile|genai-perf profile", nullptr, kOneUser, {}, kOfAiPerf},
    {"guidellm benchmark run|guidellm benchmark", nullptr, std::nullopt, {}, {}}};

using Given = std::map<ExperimentOption, GivenOption>;

struct Benchmark {
  const LoadGenerator* generator = nullptr;
  std::span<const std::string> arguments;
};

std::optional<Benchmark> BenchmarkOf(std::span<const std::string> words) {
  for (const LoadGenerator& generator : kGenerators) {
    std::optional<Benchmark> found;
    ForEachPart(generator.programs, '|', [&](std::string_view program) {
      const std::size_t begin = AfterProgram(words, program);
      if (begin != kNoProgram && !found) found = Benchmark{&generator, words.subspan(begin)};
    });
    if (found) return found;
  }
  return std::nullopt;
}

[[noreturn]] void RefuseBenchLine(const std::string& line) {
  std::vector<std::string> programs;
  for (const LoadGenerator& generator : kGenerators) {
    ForEachPart(generator.programs, '|',
                [&](std::string_view program) { programs.emplace_back(program); });
  }
  throw InputError(InputError::Kind::kUsage, kBench,
                   fmt::format("\"{}\" starts no load generator; allowed: a line with one of {}",
                               Printable(line, kMessageBytesMax), fmt::join(programs, ", ")));
}

// Reads the options of one line.
class BenchReader {
 public:
  BenchReader(const LoadGenerator& generator, GivenOptions& asked)
      : generator_(generator), asked_(asked) {}

  void Read(std::span<const std::string> words) {
    const LineOptions line =
        OptionsOfLine(words, [&](std::string_view name) { return ValuesOf(name); });
    for (const LineOption& option : line.options) Take(option);
    TakeLoadOfGuidellm();
    FillDefaults();
    for (const auto& [which, option] : given_) asked_.given.try_emplace(which, option);
    asked_.bench = generator_.lengths;
  }

 private:
  [[nodiscard]] bool IsGuidellm() const { return !generator_.load; }
  // --profile is a flag of vLLM's benchmark, and a kind of load for guidellm.
  [[nodiscard]] ValueCount ValuesOf(std::string_view name) const {
    return IsGuidellm() && name == "--profile" ? ValueCount::kOne : ValuesOfOption(name);
  }
  void Take(const LineOption& option);
  void TakeKnown(ExperimentOption which, const GivenOption& option);
  bool TakeOfGuidellm(const LineOption& option);
  void TakeData(const std::string& name, std::string_view data);
  void TakeLoadOfGuidellm();
  void FillDefaults();
  void NoteIgnored(const std::string& name) { asked_.ignored.push_back(name); }
  void NoteNotSimulated(const std::string& name, std::string_view why = "") {
    asked_.not_simulated.push_back(why.empty() ? name : fmt::format("{} ({})", name, why));
  }
  void NoteStandIn(const GivenOption& option) {
    NoteNotSimulated(option.name, option.value + " is not here: the lengths above stand in");
  }
  [[nodiscard]] bool Has(ExperimentOption which) const {
    return given_.contains(which) || asked_.given.contains(which);
  }
  // Whether options of this program, or a trace, give the lengths.
  [[nodiscard]] bool HasLengths() const {
    return asked_.given.contains(ExperimentOption::kInputLen) ||
           asked_.given.contains(ExperimentOption::kInputRange) ||
           asked_.given.contains(ExperimentOption::kPreset) || Has(ExperimentOption::kTrace);
  }

  const LoadGenerator& generator_;
  GivenOptions& asked_;
  Given given_;
  std::optional<GivenOption> kind_;  // --rate-type of guidellm
  std::optional<GivenOption> rate_;
};

void BenchReader::Take(const LineOption& option) {
  asked_.launched.push_back(option.name);
  if (IsGuidellm() && TakeOfGuidellm(option)) return;
  if (option.name == "--goodput") {
    asked_.goals.insert(asked_.goals.end(), option.values.begin(), option.values.end());
  } else if (const auto which = OptionNamed(option.name)) {
    TakeKnown(*which, {option.name, option.value()});
  } else if (IsWithoutEffect(option.name)) {
    NoteIgnored(option.name);
  } else {
    NoteNotSimulated(option.name);
  }
}

void BenchReader::TakeKnown(ExperimentOption which, const GivenOption& option) {
  std::error_code unknown;
  switch (which) {
    case ExperimentOption::kModel:
      // The name under which a server serves it.
      if (asked_.has_launch_line) return NoteIgnored(option.name);
      break;
    case ExperimentOption::kBackend:
      if (!NamedServer(asked_).value.empty()) return NoteIgnored(option.name);
      break;
    case ExperimentOption::kDataset:
      if (!option.value.starts_with("random") && option.value != "sonnet") {
        NoteStandIn(option);
      }
      return;
    case ExperimentOption::kTrace:
      if (!std::filesystem::exists(option.value, unknown)) {
        return NoteStandIn(option);
      }
      break;
    default:
      break;
  }
  given_[which] = option;
}

// --rate means users or requests per second, as --rate-type says.
bool BenchReader::TakeOfGuidellm(const LineOption& option) {
  if (option.name == "--rate-type" || option.name == "--profile") {
    kind_ = {option.name, option.value()};
  } else if (option.name == "--rate") {
    rate_ = {option.name, option.value()};
  } else if (option.name == "--data") {
    TakeData(option.name, option.value());
  } else {
    return false;
  }
  return true;
}

// "prompt_tokens=256,output_tokens=128", or as an object of JSON.
void BenchReader::TakeData(const std::string& name, std::string_view data) {
  std::string plain(data);
  std::erase_if(plain, [](char c) { return c == '{' || c == '}' || c == '"' || c == ' '; });
  ForEachPart(plain, ',', [&](std::string_view part) {
    const std::string_view key = part.substr(0, part.find_first_of("=:"));
    const std::string value(part.substr(std::min(key.size() + 1, part.size())));
    if (key == "prompt_tokens") {
      given_[ExperimentOption::kInputLen] = {name, value};
    } else if (key == "output_tokens") {
      given_[ExperimentOption::kOutputLen] = {name, value};
    } else if (key == "prefix_tokens") {
      given_[ExperimentOption::kPrefixLen] = {name, value};
    } else {
      NoteNotSimulated(fmt::format("{} {}", name, key));
    }
  });
}

void BenchReader::TakeLoadOfGuidellm() {
  if (!kind_ || Has(ExperimentOption::kRate) || Has(ExperimentOption::kConcurrency)) return;
  const GivenOption rate = rate_.value_or(GivenOption{"--rate", ""});
  if (kind_->value == "synchronous") {
    given_[ExperimentOption::kConcurrency] = {kind_->name, "1"};
  } else if (kind_->value == "throughput" || kind_->value == "sweep") {
    given_[ExperimentOption::kRate] = {kind_->name, "inf"};
    // All at once takes no time.
    if (given_.erase(ExperimentOption::kDuration) > 0) NoteNotSimulated("--max-seconds");
    if (kind_->value == "sweep") NoteNotSimulated(kind_->name, "sweep; all at once stands in");
  } else if (kind_->value == "concurrent") {
    given_[ExperimentOption::kConcurrency] = rate;
  } else if (kind_->value == "constant" || kind_->value == "poisson" || kind_->value == "async") {
    given_[ExperimentOption::kRate] = rate;
    if (kind_->value != "poisson") NoteNotSimulated(kind_->name, "requests come as by Poisson");
  }
}

void BenchReader::FillDefaults() {
  if (!Has(ExperimentOption::kRate) && !Has(ExperimentOption::kConcurrency) &&
      !Has(ExperimentOption::kRamp) && !Has(ExperimentOption::kRampStrategy) &&
      !Has(ExperimentOption::kTrace)) {
    if (IsGuidellm()) {
      throw InputError(InputError::Kind::kUsage, kBench,
                       "does not say when requests come; allowed: --rate-type constant, poisson or "
                       "concurrent with --rate R, synchronous or throughput, or --rate R or "
                       "--concurrency N beside --bench");
    }
    given_[generator_.load->which] = {kBench, std::string(generator_.load->value)};
  }
  const auto fill = [&](std::span<const DefaultOption> options) {
    for (const auto& [which, value] : options) {
      given_.try_emplace(which, GivenOption{kBench, std::string(value)});
    }
  };
  fill(generator_.requests);
  if (!HasLengths()) fill(generator_.shape);
}

}  // namespace

void TakeBenchLine(const std::string& line, GivenOptions& asked) {
  std::optional<Benchmark> benchmark;
  const auto commands = ShellCommands(kBench, line);
  for (const auto& words : commands) {
    if (!benchmark) benchmark = BenchmarkOf(words);
  }
  if (!benchmark) RefuseBenchLine(line);
  BenchReader(*benchmark->generator, asked).Read(benchmark->arguments);
}

}  // namespace twin::apps
