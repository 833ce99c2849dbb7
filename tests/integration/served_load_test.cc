// The whole server under load: sockets, protocols, engine and record, with clients of every kind at
// once. Built with sanitizers, it finds what is unsafe between the threads. TWIN_LOAD_SECONDS sets
// how long the first test runs, TWIN_LOAD_CLIENTS how many clients there are.
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "apps/serve/serving_front.h"
#include "apps/serve/text/stand_in_tokenizer.h"
#include "tests/support/hostile_clients.h"
#include "tests/support/raw_client.h"
#include "tests/unit/serve/serving_scene.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Of the sanitizers' run-time library, whose header GCC does not bring.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace twin::run {
namespace {

// Of this process, by malloc and new.
std::int64_t AllocatedBytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  const struct mallinfo2 info = mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
#endif
}

std::int64_t Setting(const char* name, std::int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

std::string RenderMessages(const serve::ChatPrompt& chat) {
  std::string text;
  for (const auto& message : chat.messages) text += message["content"].get<std::string>();
  return text;
}

class ServedLoadTest : public ServingScene {
 protected:
  ServedLoadTest() {
    options_.clock = nullptr;  // the steady one
    options_.drawn_tokens = tokenizer_.output_tokens();
    options_.end_tokens = {1999};
    front_options_.admin_key = "admin";
    // Slow readers reach their bounds.
    front_options_.http.unwritten_bytes = 4 << 10;
    front_options_.http.waiting_output_bytes = 8 << 10;
    front_options_.http.send_buffer_bytes = 4 << 10;
  }

  // Steps of 1 ms, and blocks for half of the clients' requests: some wait, some are preempted.
  static ExperimentConfig Served() {
    ExperimentConfig config = Experiment(
        "emulated { speed: 10 }", "vllm_v1 { max_num_seqs: 64 enable_prefix_caching: true }");
    config.system.model_spec.vocab = 2000;
    config.system.memory.blocks_override = 512;
    return config;
  }

  text::StandInTokenizer tokenizer_{
      {.seed = 1, .vocabulary = 2000, .characters_per_token = 4, .special = {1999}}};
  serve::FrontOptions front_options_;
  ClientCounts counts_;
};

TEST_F(ServedLoadTest, SurvivesClientsOfEveryKindAndDrains) {
  const auto engine = Start(Served());
  serve::ServingFront server(*engine, {&tokenizer_, &RenderMessages}, front_options_, "127.0.0.1",
                             0, [](const std::string&) {});
  server.Start();
  std::atomic<bool> draining = false;
  std::atomic<bool> over = false;
  std::vector<std::thread> clients;
  for (std::int64_t i = 0; i < Setting("TWIN_LOAD_CLIENTS", 64); ++i) {
    clients.emplace_back([&, i] {
      HostileClient client(server.port(), static_cast<std::uint64_t>(i), counts_);
      while (!over) client.Act(draining);
    });
  }
  std::this_thread::sleep_for(std::chrono::seconds(Setting("TWIN_LOAD_SECONDS", 3)));
  // In the midst of the load, as the first signal does.
  draining = true;
  engine->Drain();
  EXPECT_TRUE(engine->AwaitDrained(kLongTime));
  over = true;
  for (std::thread& client : clients) client.join();
  server.Drain();
  EXPECT_TRUE(server.WaitUntilIdle(std::chrono::seconds(30)));
  const RunOutcome outcome = engine->Finish();  // finds the pool empty
  EXPECT_FALSE(outcome.interrupted);
  EXPECT_EQ(Count(outcome, "completed") + Count(outcome, "cancelled") + Count(outcome, "rejected"),
            Count(outcome, "requests"));
  EXPECT_EQ(Replayed(options_.out / "record.pb"), Digest(outcome));
  EXPECT_GT(counts_.whole_streams, 0);
  EXPECT_GT(counts_.whole_answers, 0);
  EXPECT_GT(counts_.left, 0);
  EXPECT_GT(counts_.slow, 0);
  EXPECT_GT(counts_.refused, 0);
  EXPECT_GT(counts_.watched, 0);
  RecordProperty("requests", static_cast<int>(Count(outcome, "requests")));
}

// Clients that ask again and again on open connections, one that leaves amid its answer, and one
// whose request is refused.
void AskEverybodyOnce(std::deque<RawClient>& clients, std::uint16_t port) {
  const std::string whole = R"({"prompt":[1,2,3,4,5,6,7,8],"max_tokens":4,"ignore_eos":true)";
  const std::string stream = whole + R"(,"stream":true)";
  for (std::size_t i = 0; i < clients.size(); ++i) {
    clients[i].Send(PostText("/v1/completions", (i % 2 == 0 ? whole : stream) + "}"));
  }
  RawClient leaver(port);
  leaver.Send(PostText("/v1/completions", stream + R"(,"n":8,"temperature":1})"));
  leaver.ReadUntil("data: {");
  leaver.Reset();
  RawClient refused(port);
  refused.Send(PostText("/v1/completions", whole));
  EXPECT_EQ(StatusOf(refused.ReadResponse()), 400);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const std::string answer =
        i % 2 == 0 ? clients[i].ReadResponse() : clients[i].ReadUntil("\r\n0\r\n\r\n");
    EXPECT_EQ(StatusOf(answer), 200);
  }
}

// What experiments/serving/load measures over an hour. A server that keeps 32 bytes of each request
// fails. Tables of bounded size still grow by steps of a few hundred kilobytes.
TEST_F(ServedLoadTest, MemoryDoesNotGrowWithTheNumberOfRequests) {
  constexpr int kClients = 32;
  constexpr int kWarmUp = 60;
  constexpr int kMeasured = 450;
  constexpr std::int64_t kBytesMax = 32 * kClients * kMeasured;
  const auto engine = Start(Served());
  serve::ServingFront server(*engine, {&tokenizer_, &RenderMessages}, front_options_, "127.0.0.1",
                             0, [](const std::string&) {});
  server.Start();
  std::deque<RawClient> clients;
  for (int i = 0; i < kClients; ++i) clients.emplace_back(server.port());
  for (int i = 0; i < kWarmUp; ++i) AskEverybodyOnce(clients, server.port());
  ASSERT_TRUE(server.WaitUntilIdle(std::chrono::seconds(30)));
  const std::int64_t before = AllocatedBytes();
  for (int i = 0; i < kMeasured; ++i) AskEverybodyOnce(clients, server.port());
  ASSERT_TRUE(server.WaitUntilIdle(std::chrono::seconds(30)));
  EXPECT_LT(AllocatedBytes() - before, kBytesMax);
  clients.clear();
  engine->Drain();
  EXPECT_TRUE(engine->AwaitDrained(kLongTime));
  engine->Finish();
}

}  // namespace
}  // namespace twin::run
