#include "apps/serve/http/http_server.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <new>
#include <vector>

#include <boost/asio/post.hpp>

#include "apps/serve/http/scarce_memory.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin::serve {
namespace {

using boost::asio::ip::tcp;

// Beyond the limit, so many connections are told why; further ones are closed without a word.
constexpr std::size_t kRefusedTogether = 64;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr auto kIdlePoll = std::chrono::milliseconds(5);

void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));  // without it, fewer connections fit
}

// Opens the descriptors that the sockets of each loop wait on. Otherwise a loop would open them
// with its first connection, on the thread of another loop.
template <class Loops>
Loops& WithDescriptors(Loops& loops) {
  RaiseFileLimit();
  try {
    for (auto& loop : loops) const tcp::socket opens_them(loop.context);
  } catch (const boost::system::system_error& error) {
    throw InputError(InputError::Kind::kUsage, "--threads",
                     fmt::format("{} threads do not get the files that they wait on: {}; allowed: "
                                 "fewer threads, or a higher limit (ulimit -n)",
                                 loops.size(), error.code().message()));
  }
  return loops;
}

// Lowers a count by one when it is destroyed, also by an exception.
class Counted {
 public:
  explicit Counted(std::atomic<std::int64_t>& count) : count_(count) {}
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<std::int64_t>& count_;
};

tcp::endpoint Resolve(boost::asio::io_context& context, const std::string& host,
                      std::uint16_t port) {
  // The resolver takes an empty name for every address of the machine.
  if (host.empty()) {
    throw InputError(InputError::Kind::kUsage, "--host",
                     "is empty; allowed: an address or a name of this machine; 0.0.0.0 or :: for "
                     "all of them");
  }
  boost::system::error_code error;
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error || found.empty()) {
    throw InputError(
        InputError::Kind::kUsage, "--host",
        fmt::format("\"{}\" is no address of this machine: {}", Printable(host), error.message()));
  }
  return found.begin()->endpoint();
}

}  // namespace

void HttpServer::Loop::End() {
  work.reset();
  if (thread.joinable()) thread.join();  // not where the system refused it
}

void HttpServer::Loop::Run() {
  // Connections handle their own failures. Only closures of the server itself still throw, for lack
  // of memory.
  for (bool ended = false; !ended;) {
    try {
      context.run();
      ended = true;
    } catch (const std::bad_alloc&) {
    }
  }
}

HttpServer::HttpServer(const std::string& host, std::uint16_t port, const HttpLimits& limits,
                       std::size_t threads, Handler handler, Observer observer)
    : limits_(limits),
      handler_(std::move(handler)),
      observer_(std::move(observer)),
      loops_(threads),
      acceptor_(WithDescriptors(loops_).front().context),
      accept_again_(acceptor_.get_executor()) {
  const tcp::endpoint endpoint = Resolve(loops_.front().context, host, port);
  boost::system::error_code error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (!error) acceptor_.non_blocking(true, error);
  if (error) {
    throw InputError(
        InputError::Kind::kUsage, "--host, --port",
        fmt::format("{}:{} cannot be bound: {}", Printable(host), port, error.message()));
  }
  port_ = acceptor_.local_endpoint().port();
  loopback_ = endpoint.address().is_loopback();
}

HttpServer::~HttpServer() { Stop(); }

void HttpServer::Start() {
  WaitForConnection();
  for (Loop& loop : loops_) loop.thread = std::thread([&loop] { loop.Run(); });
}

// Waits for a connection and accepts it itself: async_accept would end for good where there is no
// memory for the socket that it opens.
void HttpServer::WaitForConnection() {
  DoWhenThereIsMemory([&] {
    acceptor_.async_wait(tcp::acceptor::wait_read, [this](boost::system::error_code error) {
      if (error == boost::asio::error::operation_aborted || draining_) return;
      if (error) return WaitAfterFailure();
      try {
        AcceptOne();
      } catch (const std::bad_alloc&) {
        ++counts_.refused_connections;
        return WaitAfterFailure();
      }
    });
  });
}

// Out of descriptors or memory: connections that end give some back.
void HttpServer::WaitAfterFailure() {
  DoWhenThereIsMemory([&] {
    accept_again_.expires_after(kAcceptPause);
    accept_again_.async_wait([this](boost::system::error_code stopped) {
      if (!stopped && !draining_) WaitForConnection();
    });
  });
}

void HttpServer::AcceptOne() {
  const std::size_t thread = next_loop_;
  next_loop_ = (next_loop_ + 1) % loops_.size();
  boost::system::error_code error;
  tcp::socket socket = acceptor_.accept(loops_[thread].context, error);
  // The client may have left since: it is no failure.
  const bool none_waits =
      error == boost::asio::error::would_block || error == boost::asio::error::connection_aborted;
  if (error && !none_waits) return WaitAfterFailure();
  if (!error) AddConnection(std::move(socket), thread);
  WaitForConnection();
}

void HttpServer::AddConnection(tcp::socket socket, std::size_t thread) {
  const auto open = static_cast<std::size_t>(counts_.connections.load());
  ++counts_.accepted;
  const bool refused = open >= limits_.connections;
  if (refused) ++counts_.refused_connections;
  if (open >= limits_.connections + kRefusedTogether) return;
  ConnectionHost& host = *this;
  const auto connection = std::make_shared<Connection>(std::move(socket), host, thread);
  {
    const std::lock_guard lock(mutex_);
    connections_.emplace(connection.get(), connection);
    ++counts_.connections;
  }
  try {
    boost::asio::post(connection->executor(), [connection, refused] {
      connection->Do([&] { refused ? connection->Refuse() : connection->Start(); });
    });
  } catch (...) {
    OnConnectionEnd(connection.get());
    throw;
  }
}

void HttpServer::OnConnectionEnd(Connection* connection) {
  const std::lock_guard lock(mutex_);
  if (connections_.erase(connection) > 0) --counts_.connections;
}

void HttpServer::OnRefusedRequest(int /*status*/) { ++counts_.refused_requests; }

void HttpServer::Handle(const std::shared_ptr<Exchange>& exchange) {
  ++counts_.exchanges;
  // Called after the handler's last callback: once the server is idle, nothing is left to log.
  exchange->on_ended_ = [this, exchange = exchange.get()](const ExchangeResult& result) {
    const Counted counted(counts_.exchanges);
    if (observer_) observer_(*exchange, result);
  };
  handler_(exchange);
}

void HttpServer::ForEachConnection(void (Connection::*call)()) {
  std::vector<std::shared_ptr<Connection>> open;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [address, connection] : connections_) {
      if (auto held = connection.lock()) open.push_back(std::move(held));
    }
  }
  for (const auto& connection : open) {
    boost::asio::post(connection->executor(),
                      [connection, call] { connection->Do([&] { (connection.get()->*call)(); }); });
  }
}

void HttpServer::Drain() {
  if (draining_.exchange(true)) return;
  boost::asio::post(acceptor_.get_executor(), [this] {
    boost::system::error_code error;
    acceptor_.close(error);
    accept_again_.cancel();
  });
  ForEachConnection(&Connection::CloseIdle);
}

bool HttpServer::WaitUntilIdle(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (counts_.exchanges > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kIdlePoll);
  }
  return counts_.exchanges == 0;
}

void HttpServer::Stop() {
  Drain();
  ForEachConnection(&Connection::Close);
  // The first loop still accepts: it ends first, while the loops that it hands connections to live.
  for (Loop& loop : loops_) loop.End();
}

}  // namespace twin::serve
