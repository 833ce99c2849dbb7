// Connections on real sockets: keep-alive, streams, limits of time and room, clients that leave.
#include "apps/serve/http/http_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/raw_client.h"

namespace twin::serve {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kThreads = 2;

// Answers with the path and body of the request; "/stream" sends three pieces; "/wait" answers not
// at all; "/endless" sends as fast as it is read; "/thread" tells the number of the thread.
class EchoServer {
 public:
  explicit EchoServer(const HttpLimits& limits = {})
      : server("127.0.0.1", 0, limits, kThreads,
               [this](const auto& exchange) { Handle(exchange); }) {
    server.Start();
  }

  std::atomic<int> closed = 0;
  std::atomic<int> timed_out = 0;
  std::atomic<std::int64_t> produced = 0;
  std::array<std::atomic<std::thread::id>, kThreads> thread_ids;  // that answered "/thread"
  HttpServer server;

 private:
  void Handle(const std::shared_ptr<Exchange>& exchange) {
    exchange->on_closed = [this] { ++closed; };
    exchange->on_done = [this](const ExchangeResult& result) {
      if (result.timed_out) ++timed_out;
    };
    const std::string& path = exchange->request().path;
    if (path == "/wait") return;
    HttpResponse response;
    response.content_type = "text/plain";
    if (path == "/stream") {
      exchange->StartStream(response);
      exchange->Send("one ");
      exchange->Post([exchange] {
        exchange->Send("two ");
        exchange->Send("three");
        exchange->Finish();
      });
    } else if (path == "/endless") {
      exchange->StartStream(response);
      exchange->on_drained = [this, exchange] { Produce(exchange); };
      Produce(exchange);
    } else if (path == "/thread") {
      thread_ids.at(exchange->thread()) = std::this_thread::get_id();
      response.body = std::to_string(exchange->thread());
      exchange->Respond(response);
    } else {
      response.body = path + " " + exchange->request().body;
      exchange->Respond(response);
    }
  }

  void Produce(const std::shared_ptr<Exchange>& exchange) {
    do {
      exchange->Send(std::string(1000, 'x'));
      produced += 1000;
    } while (exchange->open() && exchange->unwritten_bytes() == 0);
  }
};

bool Eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + 10s;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

TEST(HttpServer, AnswersRequestsOnOneConnectionInTheirOrder) {
  EchoServer echo;
  RawClient client(echo.server.port());
  client.Send(PostText("/a", "1") + PostText("/b", "2"));
  EXPECT_THAT(client.ReadResponse(), EndsWith("/a 1"));
  EXPECT_THAT(client.ReadResponse(), EndsWith("/b 2"));
  client.Send(GetText("/c"));
  EXPECT_THAT(client.ReadResponse(), EndsWith("/c "));
}

TEST(HttpServer, SpreadsConnectionsOverItsThreadsAndKeepsEachOnOne) {
  EchoServer echo;
  std::deque<RawClient> clients;
  for (int i = 0; i < 6; ++i) clients.emplace_back(echo.server.port());
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      clients[i].Send(GetText("/thread"));
      EXPECT_THAT(clients[i].ReadResponse(), EndsWith(i % 2 == 0 ? "0" : "1"));
    }
  }
  EXPECT_NE(echo.thread_ids[0].load(), echo.thread_ids[1].load());
  EXPECT_NE(echo.thread_ids[0].load(), std::thread::id());
}

TEST(HttpServer, AnswersAThousandPipelinedRequests) {
  EchoServer echo;
  RawClient client(echo.server.port());
  std::string requests;
  for (int i = 0; i < 1000; ++i) requests += GetText(fmt::format("/{}", i));
  std::thread sender([&] { client.Send(requests); });
  for (int i = 0; i < 1000; ++i) {
    ASSERT_THAT(client.ReadResponse(), EndsWith(fmt::format("/{} ", i)));
  }
  sender.join();
}

TEST(HttpServer, HeadHasTheFieldsOfGetAndNoBody) {
  EchoServer echo;
  RawClient client(echo.server.port());
  client.Send("HEAD /abc HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string response = client.ReadAll();
  EXPECT_THAT(response, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(response, EndsWith("\r\n\r\n"));
}

TEST(HttpServer, StreamsInChunks) {
  EchoServer echo;
  RawClient client(echo.server.port());
  client.Send(GetText("/stream"));
  const std::string response = client.ReadUntil("0\r\n\r\n");
  EXPECT_EQ(BodyOfChunks(response), "one two three");
  client.Send(GetText("/after"));
  EXPECT_THAT(client.ReadResponse(), EndsWith("/after "));
}

TEST(HttpServer, EndsTheStreamOfAnOldClientByClosing) {
  EchoServer echo;
  RawClient client(echo.server.port());
  client.Send("GET /stream HTTP/1.0\r\n\r\n");
  const std::string response = client.ReadAll();
  EXPECT_THAT(response, HasSubstr("Connection: close\r\n"));
  EXPECT_EQ(BodyOf(response), "one two three");
}

TEST(HttpServer, RefusesWithAnAnswerAndEndsTheConnection) {
  EchoServer echo;
  RawClient client(echo.server.port());
  client.Send(
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n"
      "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
  const std::string response = client.ReadAll();
  EXPECT_EQ(StatusOf(response), 501);
  EXPECT_THAT(BodyOf(response), StartsWith(R"({"error":{"message":"Transfer-Encoding)"));
  EXPECT_THAT(response, testing::Not(HasSubstr("/smuggled")));
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(echo.server.counts().refused_requests, 1);
}

// The answer arrives although the client is still sending what nobody reads.
TEST(HttpServer, TellsAClientWhoseBodyIsTooLong) {
  HttpLimits limits;
  limits.body_bytes = 1000;
  EchoServer echo(limits);
  RawClient client(echo.server.port());
  std::thread sender([&] { client.Send(PostText("/", std::string(200'000, 'x'))); });
  EXPECT_EQ(StatusOf(client.ReadAll()), 413);
  sender.join();
}

TEST(HttpServer, ContinuesAClientThatExpectsIt) {
  EchoServer echo;
  RawClient client(echo.server.port());
  client.Send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("ab");
  EXPECT_THAT(client.ReadResponse(), EndsWith("/x ab"));
}

TEST(HttpServer, EndsSlowRequestsWith408AndIdleConnectionsWithoutAWord) {
  HttpLimits limits;
  limits.header_time = 50ms;
  limits.body_time = 60ms;
  limits.idle_time = 70ms;
  EchoServer echo(limits);
  RawClient header(echo.server.port());
  header.Send("GET / HTTP/1.1\r\n");
  RawClient body(echo.server.port());
  body.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
  RawClient idle(echo.server.port());
  const std::string late_header = header.ReadAll();
  EXPECT_EQ(StatusOf(late_header), 408);
  EXPECT_THAT(late_header, HasSubstr("the header took longer than 0.05 s"));
  EXPECT_EQ(StatusOf(body.ReadAll()), 408);
  EXPECT_EQ(idle.ReadAll(), "");
  EXPECT_TRUE(idle.ended());
}

TEST(HttpServer, NoticesClientsThatLeaveWhileTheyWait) {
  EchoServer echo;
  RawClient resets(echo.server.port());
  resets.Send(GetText("/wait"));
  RawClient half(echo.server.port());
  half.Send(GetText("/wait"));
  ASSERT_TRUE(Eventually([&] { return echo.server.counts().exchanges == 2; }));
  resets.Reset();
  half.CloseSendingSide();
  EXPECT_TRUE(Eventually([&] { return echo.closed == 2; }));
  EXPECT_TRUE(Eventually([&] { return echo.server.counts().connections == 0; }));
  EXPECT_EQ(echo.server.counts().exchanges, 0);
}

// A reader that takes nothing costs the socket's buffers and no more, for the time of a write.
TEST(HttpServer, GivesUpOnClientsThatDoNotRead) {
  HttpLimits limits;
  limits.write_time = 100ms;
  EchoServer echo(limits);
  RawClient client(echo.server.port(), 4096);
  client.Send(GetText("/endless"));
  EXPECT_TRUE(Eventually([&] { return echo.closed == 1; }));
  EXPECT_EQ(echo.timed_out, 1);
  EXPECT_LT(echo.produced, 1'000'000);
}

TEST(HttpServer, EndsAClientThatPipelinesWithoutReading) {
  HttpLimits limits;
  limits.pipelined_bytes = 1000;
  EchoServer echo(limits);
  RawClient client(echo.server.port());
  client.Send(GetText("/wait"));
  for (int i = 0; i < 100; ++i) client.Send(GetText("/more"));
  EXPECT_TRUE(Eventually([&] { return echo.closed == 1; }));
}

TEST(HttpServer, TellsConnectionsBeyondTheLimit) {
  HttpLimits limits;
  limits.connections = 1;
  EchoServer echo(limits);
  RawClient first(echo.server.port());
  first.Send(GetText("/wait"));
  ASSERT_TRUE(Eventually([&] { return echo.server.counts().exchanges == 1; }));
  RawClient second(echo.server.port());
  second.Send(GetText("/"));
  const std::string response = second.ReadAll();
  EXPECT_EQ(StatusOf(response), 503);
  EXPECT_THAT(response, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_EQ(echo.server.counts().refused_connections, 1);
}

TEST(HttpServer, ClosesAfterItsLastRequest) {
  HttpLimits limits;
  limits.requests_per_connection = 2;
  EchoServer echo(limits);
  RawClient client(echo.server.port());
  client.Send(GetText("/1") + GetText("/2") + GetText("/3"));
  const std::string responses = client.ReadAll();
  EXPECT_THAT(responses, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(responses, EndsWith("/2 "));
}

TEST(HttpServer, DrainingAnswersWhatRunsAndAcceptsNothing) {
  EchoServer echo;
  RawClient idle(echo.server.port());
  idle.Send(GetText("/"));
  idle.ReadResponse();
  ASSERT_TRUE(Eventually([&] { return echo.server.counts().exchanges == 0; }));
  RawClient running(echo.server.port());
  running.Send(GetText("/wait"));
  ASSERT_TRUE(Eventually([&] { return echo.server.counts().exchanges == 1; }));
  echo.server.Drain();
  EXPECT_EQ(idle.ReadAll(), "");
  EXPECT_TRUE(idle.ended());
  EXPECT_FALSE(echo.server.WaitUntilIdle(20ms));
  EXPECT_TRUE(Eventually([&] {
    try {
      RawClient late(echo.server.port());
      return false;
    } catch (const std::exception&) {
      return true;
    }
  }));
  running.Reset();
  EXPECT_TRUE(echo.server.WaitUntilIdle(10s));
}

}  // namespace
}  // namespace twin::serve
