// A run::Service whose answers a test writes.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "apps/serve/service/service.h"

namespace twin {

// Answers each request at once with the bytes of `answer` as tokens (ByteTokenizer), up to
// max_tokens and then with EndReason::kLength, else with the end token. With `holds`, requests wait
// for Give() and End(). Token k of a request is due k milliseconds after the start.
class ScriptedService final : public run::Service {
 public:
  ScriptedService() {
    served.name = "model-a";
    served.vocabulary = 258;
    served.max_model_length = 1000;
    served.end_tokens = {257};
    served.emulated = true;
    served.policy = "vllm_v1";
    served.block_size = 16;
    served.blocks = 100;
    served.resolved_config = "name: \"test\"\n";
    current.ready = true;
  }

  const run::ServedModel& model() const override { return served; }
  run::ServiceState state() const override {
    const std::lock_guard lock(mutex_);
    return current;
  }
  TimePoint now() const override { return TimePoint(std::chrono::seconds(1)); }

  std::variant<run::GenerationId, run::Refusal> Submit(
      run::GenerationRequest request, std::shared_ptr<run::GenerationSink> sink) override {
    std::unique_lock lock(mutex_);
    if (requests.size() >= room) return run::Refusal::kQueueFull;
    if (current.draining) return run::Refusal::kDraining;
    const auto id = static_cast<run::GenerationId>(requests.size());
    requests.push_back(request);
    sinks_.push_back(sink);
    told_.push_back(0);
    lock.unlock();
    if (holds) return id;
    const std::size_t length =
        std::min(answer.size(), static_cast<std::size_t>(request.max_tokens));
    Give(id, answer.substr(0, length));
    if (length == static_cast<std::size_t>(request.max_tokens)) {
      End(id, run::EndReason::kLength);
    } else {
      GiveToken(id, 257);
      End(id, run::EndReason::kStop);
    }
    return id;
  }

  void Cancel(run::GenerationId id, run::CancelReason reason) override {
    {
      const std::lock_guard lock(mutex_);
      cancelled.emplace(id, reason);
    }
    if (ends_cancelled) End(id, run::EndReason::kCancelled);
  }

  void SetStepListener(run::StepListener* listener) override { listener_ = listener; }
  void Drain() override {
    const std::lock_guard lock(mutex_);
    current.draining = true;
  }
  std::string Record() const override { return "recorded"; }

  void Give(run::GenerationId id, std::string_view bytes) {
    for (const char c : bytes) GiveToken(id, static_cast<unsigned char>(c));
  }

  void GiveToken(run::GenerationId id, std::int32_t token) {
    const auto [sink, index] = SinkOf(id);
    if (sink == nullptr) return;
    run::GeneratedToken generated;
    generated.token = token;
    generated.logprob = -0.5F;
    generated.alternatives = {{token, -0.5F}, {token == 'x' ? 'y' : 'x', -1.5F}};
    const auto wanted = static_cast<std::size_t>(std::max(0, requests[At(id)].logprobs));
    generated.alternatives.resize(std::min<std::size_t>(2, wanted));
    generated.due = TimePoint(std::chrono::milliseconds(index));
    sink->OnToken(generated);
  }

  void End(run::GenerationId id, run::EndReason reason) {
    const auto [sink, index] = SinkOf(id);
    if (sink == nullptr) return;
    {
      const std::lock_guard lock(mutex_);
      sinks_[At(id)].reset();
    }
    run::GenerationEnd end;
    end.reason = reason;
    end.generated_tokens = static_cast<std::int32_t>(index - 1);
    end.cached_prompt_tokens = 2;
    end.first_scheduled = end.first_token = end.last_token =
        TimePoint(std::chrono::milliseconds(1));
    sink->OnEnd(end);
  }

  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return requests.size();
  }
  bool WasCancelled(std::size_t index, run::CancelReason reason) const {
    const std::lock_guard lock(mutex_);
    const auto found = cancelled.find(static_cast<run::GenerationId>(index));
    return found != cancelled.end() && found->second == reason;
  }

  run::ServedModel served;
  run::ServiceState current;
  std::string answer = "abc";
  std::atomic<bool> holds = false;
  bool ends_cancelled = true;
  std::size_t room = 1000;  // requests that are accepted
  std::vector<run::GenerationRequest> requests;
  std::map<run::GenerationId, run::CancelReason> cancelled;

 private:
  static std::size_t At(run::GenerationId id) { return static_cast<std::size_t>(id); }
  // The sink, null behind the end, and the number of this call.
  std::pair<std::shared_ptr<run::GenerationSink>, int> SinkOf(run::GenerationId id) {
    const std::lock_guard lock(mutex_);
    return {sinks_[At(id)], ++told_[At(id)]};
  }

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<run::GenerationSink>> sinks_;
  std::vector<int> told_;
  run::StepListener* listener_ = nullptr;
};

}  // namespace twin
