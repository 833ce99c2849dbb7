#include "traces/servegen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/files/csv.h"
#include "core/hash.h"
#include "core/input_error.h"
#include "core/random.h"
#include "traces/trace_limits.h"

namespace twin {
namespace {

constexpr std::size_t kFirstQuantile = 3;  // after client, window_start_s and field

// The probabilities in the names of the columns: q2.5 is 0.025.
std::vector<double> ReadProbabilities(const CsvTable& table) {
  std::vector<double> probabilities;
  for (std::size_t i = kFirstQuantile; i < table.columns().size(); ++i) {
    const std::string_view name = table.columns()[i];
    if (!name.starts_with('q')) table.lines().RefuseField("header", name, "q0 to q100");
    const double p = ParseReal({table.lines(), "header", name.substr(1)}, 0, 100) / 100;
    if (!probabilities.empty() && p <= probabilities.back()) {
      table.lines().RefuseField("header", name, "rising quantiles");
    }
    probabilities.push_back(p);
  }
  return probabilities;
}

std::vector<double> ReadValues(const CsvTable& table) {
  std::vector<double> values;
  for (std::size_t i = kFirstQuantile; i < table.columns().size(); ++i) {
    const Field field{table.lines(), table.columns()[i], table.cells()[i]};
    values.push_back(ParseReal(field, 0, kTokensMax));
    if (values.size() > 1 && values.back() < values[values.size() - 2]) {
      table.lines().RefuseField(field.name, field.text, "no less than the quantile before");
    }
  }
  return values;
}

// The length windows of the clients.
class ServeGenLengths {
 public:
  // Reads the whole file. Throws InputError.
  explicit ServeGenLengths(const std::string& path);

  struct Lengths {
    std::int32_t prompt = 1;
    std::int32_t output = 1;
  };

  [[nodiscard]] bool Has(std::uint32_t client) const { return clients_.contains(client); }
  // The clients that have lengths, in increasing order.
  [[nodiscard]] std::vector<std::uint32_t> clients() const;
  // REQUIRES: Has(client).
  Lengths Draw(std::uint32_t client, Duration at, ServeGenConfig::Dependence dependence,
               Random& random) const;

 private:
  enum Field : std::uint8_t {
    kInput,
    kOutput,
    kText,
    kImageTokens,
    kImageCount,
    kAudioTokens,
    kAudioCount,
    kVideoTokens,
    kVideoCount,
    kFieldCount
  };
  struct Window {
    Duration start{};
    std::vector<std::optional<QuantileDistribution>> fields;
  };
  static std::optional<Field> FieldNamed(std::string_view name);
  void CheckComplete(const std::string& path) const;

  std::map<std::uint32_t, std::vector<Window>> clients_;  // windows by rising start
};

std::optional<ServeGenLengths::Field> ServeGenLengths::FieldNamed(std::string_view name) {
  constexpr std::string_view kNames[] = {"input_tokens", "output_tokens", "text_tokens",
                                         "image_tokens", "image_count",   "audio_tokens",
                                         "audio_count",  "video_tokens",  "video_count"};
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<Field>(found - std::begin(kNames));
}

ServeGenLengths::ServeGenLengths(const std::string& path) {
  CsvTable table(path);
  constexpr std::string_view kFirst[] = {"client", "window_start_s", "field"};
  const std::vector<std::string>& names = table.columns();
  if (names.size() <= kFirstQuantile ||
      !std::equal(std::begin(kFirst), std::end(kFirst), names.begin())) {
    table.lines().RefuseField("header", fmt::format("{}", fmt::join(names, ",")),
                              "client,window_start_s,field,q0,...,q100");
  }
  const std::vector<double> probabilities = ReadProbabilities(table);
  while (table.Next()) {
    const auto client = static_cast<std::uint32_t>(table.Integer("client", 0, UINT32_MAX));
    const Duration start = ParseSeconds(table.At("window_start_s"));
    const std::optional<Field> field = FieldNamed(table.Text("field"));
    if (!field) table.Refuse("field", "input_tokens, output_tokens, ...");
    std::vector<Window>& windows = clients_[client];
    if (!windows.empty() && start < windows.back().start) {
      table.Refuse("window_start_s", "no earlier than the client's window before");
    }
    if (windows.empty() || start > windows.back().start) {
      windows.push_back({start, std::vector<std::optional<QuantileDistribution>>(kFieldCount)});
    }
    windows.back().fields[*field].emplace(probabilities, ReadValues(table));
  }
  CheckComplete(path);
}

void ServeGenLengths::CheckComplete(const std::string& path) const {
  if (clients_.empty()) {
    throw InputError(InputError::Kind::kData, path, "no client in the file");
  }
  for (const auto& [client, windows] : clients_) {
    for (const Window& window : windows) {
      if (window.fields[kOutput] && (window.fields[kInput] || window.fields[kText])) continue;
      throw InputError(InputError::Kind::kData, path,
                       fmt::format("client {}, window_start_s {}: allowed: output_tokens, and "
                                   "input_tokens or text_tokens",
                                   client, Seconds(window.start)));
    }
  }
}

std::vector<std::uint32_t> ServeGenLengths::clients() const {
  std::vector<std::uint32_t> clients;
  for (const auto& [client, windows] : clients_) clients.push_back(client);
  return clients;
}

ServeGenLengths::Lengths ServeGenLengths::Draw(std::uint32_t client, Duration at,
                                               ServeGenConfig::Dependence dependence,
                                               Random& random) const {
  const std::vector<Window>& windows = clients_.at(client);
  const auto after =
      std::upper_bound(windows.begin(), windows.end(), at,
                       [](Duration t, const Window& window) { return t < window.start; });
  const Window& window = after == windows.begin() ? *after : *std::prev(after);
  const double u = random.UnitReal();
  const auto draw = [&](Field field) {
    if (!window.fields[field]) return 0.0;
    const bool shared = dependence == ServeGenConfig::Dependence::kComonotone;
    return std::floor(window.fields[field]->At(shared ? u : random.UnitReal()) + 0.5);
  };
  double prompt = draw(kInput);
  if (!window.fields[kInput]) {
    prompt = draw(kText);
    prompt += draw(kImageCount) * draw(kImageTokens);
    prompt += draw(kAudioCount) * draw(kAudioTokens);
    prompt += draw(kVideoCount) * draw(kVideoTokens);
  }
  const auto clip = [](double tokens) {
    return static_cast<std::int32_t>(std::clamp(tokens, 1.0, double{kTokensMax}));
  };
  return {clip(prompt), clip(draw(kOutput))};
}

constexpr Duration kWindow = std::chrono::seconds(600);

// One client's requests in one window.
struct ClientWindow {
  std::uint32_t client = 0;
  Duration start{};
  double rate = 0;
  bool weibull = false;
  double shape = 1;
  Random gaps{0, ""};     // state before the next gap
  std::int64_t left = 0;  // requests still to come
  double elapsed = 0;     // sum of the gaps so far, before rescaling
  double to_seconds = 0;  // rescaling of gaps; 0 = equal gaps
  Duration next{};        // arrival in the file's time

  double DrawGap() { return weibull ? gaps.Weibull(shape, 1) : gaps.Gamma(shape, 1); }
  static bool Later(const ClientWindow& a, const ClientWindow& b) {
    return std::pair(a.next, a.client) > std::pair(b.next, b.client);
  }
};

class ServeGenRequests final : public RequestStream {
 public:
  ServeGenRequests(const ServeGenConfig& config, const RequestRules& rules, std::uint64_t seed)
      : config_(config),
        rules_(rules),
        seed_(seed),
        table_(config.arrivals_path,
               {"client", "window_start_s", "rate_rps", "iat_cv", "dist", "shape", "scale_s"}),
        lengths_(config.lengths_path),
        length_random_(seed, "servegen lengths") {
    has_row_ = ReadRow();
  }

  bool Next(TracedRequest& request) override {
    while (true) {
      if (pending_.empty() && !BeginWindow()) return End();
      std::pop_heap(pending_.begin(), pending_.end(), ClientWindow::Later);
      ClientWindow window = std::move(pending_.back());
      pending_.pop_back();
      const Duration at = window.next;
      const std::uint32_t client = window.client;
      Advance(std::move(window));
      if (config_.duration > Duration::zero() && at - config_.start >= config_.duration) {
        return End();
      }
      if (at < config_.start || !SetLengths(client, at, request)) continue;
      SetRest(client, at, request);
      ++emitted_;
      return true;
    }
  }

 private:
  bool End() const {
    if (emitted_ == 0) {
      throw InputError(InputError::Kind::kUsage, "workload.servegen",
                       "no request of the chosen clients within start and duration");
    }
    return false;
  }

  // Parses the next row of a chosen client into row_; false at the end.
  bool ReadRow() {
    while (table_.Next()) {
      const auto client = static_cast<std::uint32_t>(table_.Integer("client", 0, UINT32_MAX));
      const Duration start = ParseSeconds(table_.At("window_start_s"));
      const bool first = rows_++ == 0;
      if (!first && start != row_.start && start < row_.start + kWindow) {
        table_.Refuse("window_start_s", "the line before's, or at least 600 s later");
      }
      row_ = {.client = client, .start = start};
      row_.rate = ParseReal(table_.At("rate_rps"), 0, 1e5);
      row_.weibull = table_.Text("dist") == "Weibull";
      if (!row_.weibull && table_.Text("dist") != "Gamma") {
        table_.Refuse("dist", "Gamma or Weibull");
      }
      row_.shape = ParseReal(table_.At("shape"), 1e-4, 1e6);
      ParseReal(table_.At("scale_s"), 0, 1e12);
      if (config_.clients.empty() || std::find(config_.clients.begin(), config_.clients.end(),
                                               client) != config_.clients.end()) {
        return true;
      }
    }
    return false;
  }

  // Starts all clients of the next window in the file; false at its end.
  bool BeginWindow() {
    while (has_row_ && pending_.empty()) {
      window_start_ = row_.start;
      if (config_.duration > Duration::zero() &&
          window_start_ - config_.start >= config_.duration) {
        return false;
      }
      for (; has_row_ && row_.start == window_start_; has_row_ = ReadRow()) {
        if (window_start_ + kWindow > config_.start) StartClient(row_);
      }
    }
    return !pending_.empty();
  }

  void StartClient(ClientWindow window) {
    const std::uint64_t place =
        MixWords(window.client, static_cast<std::uint64_t>(window.start.count()));
    window.gaps = Random(MixWords(seed_, place), "servegen gaps");
    const double expected = window.rate * Seconds(kWindow);
    window.left = static_cast<std::int64_t>(expected + window.gaps.UnitReal());
    if (window.left == 0) return;
    ClientWindow trial = window;
    double sum = 0;
    for (std::int64_t i = 0; i <= window.left; ++i) sum += trial.DrawGap();
    const bool usable = sum > 0 && std::isfinite(sum);
    window.to_seconds = usable ? Seconds(kWindow) / sum : 0;
    ++window.left;  // Advance counts the request that it makes
    Advance(std::move(window));
  }

  // Moves the client to `seconds` after the window's start. Rounding must not carry the request
  // into the next window.
  static void MoveTo(ClientWindow& window, double seconds) {
    window.next = window.start + std::min(DurationFromSeconds(seconds), kWindow - Duration{1});
  }

  // Advances the client to its next request of the window, if it has one.
  void Advance(ClientWindow window) {
    if (--window.left == 0) return;
    if (window.to_seconds > 0) {
      window.elapsed += window.DrawGap();
      MoveTo(window, window.elapsed * window.to_seconds);
    } else {
      window.elapsed += 1 / window.rate;
      MoveTo(window, window.elapsed);
    }
    pending_.push_back(std::move(window));
    std::push_heap(pending_.begin(), pending_.end(), ClientWindow::Later);
  }

  // The client whose lengths are used: `client` itself if it has lengths.
  std::uint32_t LengthsOf(std::uint32_t client) {
    const auto [place, added] = lender_.try_emplace(client, client);
    if (added && !lengths_.Has(client)) {
      const std::vector<std::uint32_t> lenders = lengths_.clients();
      Random random(MixWords(seed_, client), "servegen lender");
      place->second = lenders[static_cast<std::size_t>(
          random.UniformInt(0, static_cast<std::int64_t>(lenders.size()) - 1))];
    }
    return place->second;
  }

  bool SetLengths(std::uint32_t client, Duration at, TracedRequest& request) {
    const std::uint32_t lender = LengthsOf(client);
    if (lender != client && config_.missing_lengths == ServeGenConfig::MissingLengths::kSkip) {
      return false;
    }
    const auto [prompt, output] = lengths_.Draw(lender, at, config_.dependence, length_random_);
    request.prompt_tokens = prompt;
    request.output_tokens = output;
    return true;
  }

  void SetRest(std::uint32_t client, Duration at, TracedRequest& request) {
    const Duration since_start = at - config_.start;
    request.arrival = TimePoint{DurationFromSeconds(
        std::min(Seconds(since_start) / config_.rate_scale, Seconds(kArrivalMax)))};
    if (config_.rate_scale == 1) request.arrival = TimePoint{since_start};
    request.max_output_tokens = 0;
    request.predicted_output_tokens = -1;
    request.priority = 0;
    request.tenant = client;
    request.session = 0;
    request.prefix_chunks.clear();
    request.prefix_chunk_tokens = 0;
    rules_.ApplyLimit(request);
    rules_.ApplyPrediction(request);
  }

  ServeGenConfig config_;
  RequestRules rules_;
  std::uint64_t seed_;
  CsvTable table_;
  ServeGenLengths lengths_;
  Random length_random_;
  ClientWindow row_;
  std::int64_t rows_ = 0;
  bool has_row_ = false;
  Duration window_start_{};
  std::vector<ClientWindow> pending_;  // a heap by ClientWindow::Later
  std::map<std::uint32_t, std::uint32_t> lender_;
  std::int64_t emitted_ = 0;
};

}  // namespace

std::unique_ptr<RequestStream> OpenServeGen(const ServeGenConfig& config, const RequestRules& rules,
                                            std::uint64_t seed) {
  return std::make_unique<ServeGenRequests>(config, rules, seed);
}

}  // namespace twin
