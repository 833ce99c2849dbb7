#include "apps/serve/page/live_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <new>
#include <utility>

#include "apps/serve/json_text.h"
#include "core/hash.h"
#include "core/statistics.h"

namespace twin::serve {
namespace {

// JSON: the quantile; null if there are no values.
std::string QuantileText(const std::vector<float>& values, double quantile) {
  if (values.empty()) return "null";
  return fmt::format("{:.6g}", Quantile({values.begin(), values.end()}, quantile));
}

}  // namespace

// Reservoir sampling: the k-th value replaces one of the kept values with probability kept / k.
void LiveHistory::Sample::Add(double value) {
  ++count;
  if (values.size() < kSamplesPerSecond) {
    values.push_back(static_cast<float>(value));
    return;
  }
  const std::uint64_t place = MixWords(count, 0) % count;
  if (place < values.size()) values[place] = static_cast<float>(value);
}

LiveHistory::LiveHistory(const run::Service& service) : service_(service) {
  thread_ = std::thread([this] {
    auto next = std::chrono::steady_clock::now();
    while (true) {
      next += std::chrono::seconds(1);
      {
        std::unique_lock lock(mutex_);
        if (end_.wait_until(lock, next, [this] { return ended_; })) return;
      }
      try {
        CloseSecond();
      } catch (const std::bad_alloc&) {  // the page misses a second
      }
    }
  });
}

LiveHistory::~LiveHistory() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  end_.notify_all();
  thread_.join();
}

void LiveHistory::AddOutputs(std::span<const Duration> first_tokens,
                             std::span<const Duration> token_gaps) {
  const std::lock_guard lock(mutex_);
  for (const Duration time : first_tokens) current_.first_token.Add(Seconds(time));
  for (const Duration gap : token_gaps) current_.token_gap.Add(Seconds(gap));
}

void LiveHistory::OnStep(const run::StepListener::Step& step) {
  const std::lock_guard lock(mutex_);
  ++current_.steps;
  current_.prefill_tokens += step.prefill_tokens;
  current_.decode_tokens += step.decode_tokens;
  current_.requests += step.requests;
}

void LiveHistory::CloseSecond() {
  run::ServiceState state = service_.state();
  const std::lock_guard lock(mutex_);
  current_.state = std::move(state);
  seconds_.push_back(std::exchange(current_, {}));
  if (seconds_.size() > kSeconds) seconds_.pop_front();
}

std::string LiveHistory::JsonText() const {
  std::deque<Second> seconds;
  {
    const std::lock_guard lock(mutex_);
    seconds = seconds_;
  }
  const run::ServedModel& model = service_.model();
  std::string out = fmt::format(
      R"({{"model":{},"policy":{},"emulated":{},"speed":{},"replicas":{},"block_size":{},)"
      R"("blocks":{},"max_model_len":{},"config":{})",
      JsonString(model.name), JsonString(model.policy), model.emulated, model.speed, model.replicas,
      model.block_size, model.blocks, model.max_model_length, JsonString(model.resolved_config));
  const auto series = [&](const char* name, const std::function<std::string(const Second&)>& of) {
    out += fmt::format(R"(,"{}":[)", name);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      if (i > 0) out += ',';
      out += of(seconds[i]);
    }
    out += ']';
  };
  series("running", [](const Second& s) { return fmt::to_string(s.state.running); });
  series("waiting", [](const Second& s) { return fmt::to_string(s.state.waiting); });
  series("kv_usage", [](const Second& s) { return fmt::format("{:.4f}", s.state.kv_usage); });
  series("steps", [](const Second& s) { return fmt::to_string(s.steps); });
  series("prefill_tokens", [](const Second& s) { return fmt::to_string(s.prefill_tokens); });
  series("decode_tokens", [](const Second& s) { return fmt::to_string(s.decode_tokens); });
  series("batch_requests", [](const Second& s) {
    return s.steps == 0 ? "0"
                        : fmt::format("{:.2f}", static_cast<double>(s.requests) /
                                                    static_cast<double>(s.steps));
  });
  for (const auto& [name, quantile] : {std::pair{"p50", 0.5}, std::pair{"p99", 0.99}}) {
    series(fmt::format("first_token_{}", name).c_str(),
           [q = quantile](const Second& s) { return QuantileText(s.first_token.values, q); });
    series(fmt::format("token_gap_{}", name).c_str(),
           [q = quantile](const Second& s) { return QuantileText(s.token_gap.values, q); });
  }
  return out + "}";
}

}  // namespace twin::serve
