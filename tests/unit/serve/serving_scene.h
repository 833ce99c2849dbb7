// A service for tests, with clients that keep what they hear.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "apps/serve/service/serving_engine.h"
#include "run/files/record_file.h"
#include "run/replay.h"
#include "sim/world/wall_clock.h"

namespace twin::run {

namespace fs = std::filesystem;

inline constexpr auto kLongTime = std::chrono::seconds(120);  // only failures take so long

// An emulated model whose steps take 10 ms; 64 blocks of 4 tokens.
inline ExperimentConfig Experiment(
    const std::string& world = "emulated {}",
    const std::string& policy = "vllm_v1 { max_num_seqs: 8 enable_prefix_caching: true }") {
  return ParseExperiment("seed: 5 world { " + world + " } policy { " + policy +
                             " } system { hardware: 'cpu-generic' model_shape { layers: 2 hidden: "
                             "32 intermediate: 48 query_heads: 4 kv_heads: 2 head_dim: 8 vocab: "
                             "101 max_position: 128 weight_dtype: fp32 kv_dtype: bf16 } memory { "
                             "non_framework_bytes: 0 block_size: 4 blocks_override: 64 } } "
                             "cost { constant { step_s: 0.01 } } outputs { perfetto: false }",
                         "test", "/");
}

// A clock without waiting: time jumps to each deadline, but not beyond a limit.
class JumpingClock final : public sim::WallClock {
 public:
  [[nodiscard]] Duration Elapsed() const override { return Duration{now_.load()}; }
  void WaitUntil(Duration deadline, std::unique_lock<std::mutex>& lock,
                 std::condition_variable& changed) override {
    if (deadline <= Duration{limit_.load()} && deadline != Duration::max()) {
      now_ = std::max(now_.load(), deadline.count());
      return;
    }
    changed.wait_for(lock, std::chrono::milliseconds(1));
  }
  void Allow(Duration limit) { limit_ = limit.count(); }

 private:
  std::atomic<std::int64_t> now_ = 0;
  std::atomic<std::int64_t> limit_ = Duration::max().count();
};

// The tokens and the end that a client hears.
class Heard final : public GenerationSink {
 public:
  void OnToken(const GeneratedToken& token) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(ends_, 0) << "a token behind the end";
    told_.push_back(token);
    changed_.notify_all();
  }
  void OnEnd(const GenerationEnd& end) override {
    const std::lock_guard lock(mutex_);
    ++ends_;
    end_ = end;
    changed_.notify_all();
  }

  // Waits for the end.
  GenerationEnd End() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kLongTime, [this] { return ends_ > 0; }));
    return end_;
  }
  void AwaitTokens(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kLongTime, [&] { return told_.size() >= count; }));
  }
  std::vector<GeneratedToken> Told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  std::vector<std::int32_t> Tokens() {
    std::vector<std::int32_t> tokens;
    for (const GeneratedToken& told : Told()) tokens.push_back(told.token);
    return tokens;
  }
  std::vector<TimePoint> Due() {
    std::vector<TimePoint> due;
    for (const GeneratedToken& told : Told()) due.push_back(told.due);
    return due;
  }
  int Ends() {
    const std::lock_guard lock(mutex_);
    return ends_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<GeneratedToken> told_;
  GenerationEnd end_;
  int ends_ = 0;
};

inline GenerationRequest Asked(std::vector<std::int32_t> prompt, std::int32_t max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  return request;
}

inline GenerationId Submit(ServingEngine& engine, GenerationRequest request,
                           const std::shared_ptr<Heard>& heard) {
  const auto result = engine.Submit(std::move(request), heard);
  EXPECT_TRUE(std::holds_alternative<GenerationId>(result));
  return std::get<GenerationId>(result);
}

// Asks and waits for the whole answer.
inline std::shared_ptr<Heard> Answer(ServingEngine& engine, GenerationRequest request) {
  auto heard = std::make_shared<Heard>();
  Submit(engine, std::move(request), heard);
  heard->End();
  return heard;
}

class ServingScene : public ::testing::Test {
 protected:
  ServingScene() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              (std::string("serving_test_") + test->name() + std::to_string(::getpid()));
    fs::create_directories(folder_);
    options_.clock = &clock_;
    options_.out = folder_ / "run";
  }
  ~ServingScene() override { fs::remove_all(folder_); }

  std::unique_ptr<ServingEngine> Start(const ExperimentConfig& config) {
    return StartServing(config, options_, control_);
  }

  // The digest of the decisions of a replay. Empty if they differ from the record's.
  std::string Replayed(const fs::path& record) {
    RecordReader reader(record, RecordReader::WithoutEnd::kReadWhatIsThere);
    reader.ListenToRefusals([this](const RefusedRequest& one) { refused_.push_back(one); });
    const ExperimentConfig config = ParseExperiment(reader.header().config, "record", "/");
    const ReplayResult result = ReplayDecisions(reader, config, reader.header());
    if (result.difference) return "";
    EXPECT_EQ(result.digest, reader.end().digest);
    EXPECT_EQ(result.plans, reader.end().plans);
    return result.digest_text;
  }
  std::string Digest(const RunOutcome& outcome) {
    return std::get<std::string>(*outcome.summary.Find("digest"));
  }
  std::int64_t Count(const RunOutcome& outcome, const std::string& name) {
    return std::get<std::int64_t>(*outcome.summary.Find(name));
  }

  fs::path folder_;
  JumpingClock clock_;
  ServingOptions options_;
  RunControl control_;
  std::vector<RefusedRequest> refused_;
};

}  // namespace twin::run
