// One client connection: reads requests, one after the other, and writes their answers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>  // before Asio: Boost 1.74 misses it in C++20

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "apps/serve/http/exchange.h"
#include "apps/serve/http/http_limits.h"
#include "apps/serve/http/request_reader.h"

namespace twin::serve {

class Connection;

// The server, as its connections see it. Each connection calls from its own thread.
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;
  [[nodiscard]] virtual const HttpLimits& limits() const = 0;
  // Memory for bytes that are being written, shared by the connections of one thread: after the
  // latest use it is still in the processor's caches.
  [[nodiscard]] virtual std::string& SpareMemory(std::size_t thread) = 0;
  // Answers a request now or later.
  virtual void Handle(const std::shared_ptr<Exchange>& exchange) = 0;
  // A request that could not be read was answered with this status.
  virtual void OnRefusedRequest(int status) = 0;
  // True once the server ends: no request may follow on this connection.
  [[nodiscard]] virtual bool draining() const = 0;
  // The last call of a connection.
  virtual void OnConnectionEnd(Connection* connection) = 0;
};

// Always keeps one read pending, so that a client that leaves is noticed while its answer is being
// computed. The end of the client's sending side counts as leaving, also where it only closed one
// half. At most one write is in flight. Everything runs on the connection's thread, which is one of
// the server's.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  // `host` must outlive the connection. `thread`: index of the server's thread that runs it.
  Connection(Socket socket, ConnectionHost& host, std::size_t thread);

  void Start();
  // Answers 503 without reading a request.
  void Refuse();
  // Closes at once.
  void Close() noexcept;
  // Closes unless a request is in progress.
  void CloseIdle();

  // Does a part of the connection's work, on its thread. A lack of memory there ends this
  // connection, not the server.
  template <class Work>
  void Do(const Work& work) noexcept {
    try {
      work();
    } catch (const std::bad_alloc&) {
      Close();
    }
  }

  [[nodiscard]] boost::asio::any_io_executor executor() { return socket_.get_executor(); }

 private:
  friend class Exchange;
  using Error = boost::system::error_code;
  using Clock = std::chrono::steady_clock;

  void Read();
  void OnRead(Error error, std::size_t bytes);
  void AdvanceReader();
  void BeginExchange();
  void RefuseRequest();
  void AnswerAndClose(const HttpResponse& response);
  void SetReadTimer(std::chrono::milliseconds time);
  void OnReadTimeout();

  void StartAnswer(const HttpResponse& head, BodyFraming framing);
  void Write(std::string_view bytes);
  void WriteChunk(std::string_view bytes);
  void Flush();
  void TakeMemory();
  void GiveMemoryBack();
  void OnWritten(Error error, std::size_t bytes);
  void OnAllWritten();
  void EndAnswer();
  void FinishExchange(bool complete, bool timed_out);
  void DrainBeforeClose();

  Socket socket_;
  ConnectionHost& host_;
  const std::size_t thread_;
  std::string& spare_;  // ConnectionHost::SpareMemory
  RequestReader reader_;
  std::string client_;
  std::array<char, 8192> input_;
  boost::asio::steady_timer read_timer_;
  boost::asio::steady_timer write_timer_;

  std::shared_ptr<Exchange> exchange_;  // of the request in progress
  Clock::time_point begun_;
  Clock::time_point header_read_;
  RequestReader::State phase_ = RequestReader::State::kIdle;  // limited by read_timer_
  std::int32_t requests_ = 0;

  std::string writing_;  // in flight from written_ on
  std::size_t written_ = 0;
  std::string next_;  // to be written after it
  bool write_pending_ = false;
  bool chunked_ = false;
  bool keep_alive_ = true;
  bool answer_ended_ = false;  // the exchange is over once everything is written
  bool draining_before_close_ =
      false;  // takes no request any more, reads on so that the answer arrives
  bool closed_ = false;
};

}  // namespace twin::serve
