// Accepts connections and spreads them over threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>  // before Asio: Boost 1.74 misses it in C++20

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "apps/serve/http/connection.h"
#include "apps/serve/http/http_limits.h"

namespace twin::serve {

// Counts of connections and requests. Counters only grow.
struct HttpCounts {
  std::atomic<std::int64_t> connections = 0;  // open now
  std::atomic<std::int64_t> accepted = 0;
  std::atomic<std::int64_t> refused_connections = 0;
  std::atomic<std::int64_t> refused_requests = 0;  // answered before a route saw them
  std::atomic<std::int64_t> exchanges = 0;         // in progress now
};

// Each connection belongs to one of the server's threads from its first byte to its last, so that
// nothing of it needs a lock. A send takes microseconds. Longer work (JSON of a long prompt, a
// tokenizer) belongs on a thread outside the server; Exchange::Post brings the result back.
class HttpServer final : private ConnectionHost {
 public:
  using Handler = std::function<void(const std::shared_ptr<Exchange>&)>;
  // Called for each exchange that ended, on its thread.
  using Observer = std::function<void(const Exchange&, const ExchangeResult&)>;

  // Binds and listens; connections wait for Start(). Port 0 takes a free one. Raises the limit of
  // open files to what the system allows. `threads` >= 1; handler and observer are called from
  // all of them. Throws InputError (usage) if the address cannot be bound.
  HttpServer(const std::string& host, std::uint16_t port, const HttpLimits& limits,
             std::size_t threads, Handler handler, Observer observer = nullptr);
  ~HttpServer() override;
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] bool loopback() const { return loopback_; }
  [[nodiscard]] const HttpCounts& counts() const { return counts_; }

  void Start();
  // Accepts no connection and no further request. Requests in progress are answered.
  void Drain();
  // Waits until no request is in progress. True if that happened within `time`.
  bool WaitUntilIdle(std::chrono::milliseconds time);
  // Closes what is open and ends the threads. Also done by the destructor.
  void Stop();

 private:
  // A thread, and the loop of events that it runs.
  struct Loop {
    boost::asio::io_context context{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
        context.get_executor()};
    std::string spare_memory;  // of its connections
    std::thread thread;

    void Run();
    // Waits until nothing is left to do.
    void End();
  };

  [[nodiscard]] const HttpLimits& limits() const override { return limits_; }
  [[nodiscard]] std::string& SpareMemory(std::size_t thread) override {
    return loops_.at(thread).spare_memory;
  }
  void Handle(const std::shared_ptr<Exchange>& exchange) override;
  void OnRefusedRequest(int status) override;
  [[nodiscard]] bool draining() const override { return draining_; }
  void OnConnectionEnd(Connection* connection) override;

  void WaitForConnection();
  void WaitAfterFailure();
  void AcceptOne();
  void AddConnection(boost::asio::ip::tcp::socket socket, std::size_t thread);
  void ForEachConnection(void (Connection::*call)());

  const HttpLimits limits_;
  const Handler handler_;
  const Observer observer_;
  HttpCounts counts_;
  std::deque<Loop> loops_;
  std::size_t next_loop_ = 0;                // of the next connection
  boost::asio::ip::tcp::acceptor acceptor_;  // on the first loop
  boost::asio::steady_timer accept_again_;
  std::uint16_t port_ = 0;
  bool loopback_ = false;
  std::atomic<bool> draining_ = false;
  std::mutex mutex_;  // of connections_
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections_;
};

}  // namespace twin::serve
