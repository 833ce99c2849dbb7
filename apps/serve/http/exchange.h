// One request on a connection and the way to answer it: whole, or as a stream.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>  // before Asio: Boost 1.74 misses it in C++20

#include <boost/asio/any_io_executor.hpp>

#include "apps/serve/http/http_message.h"

namespace twin::serve {

class Connection;
class HttpServer;

// How an exchange ended, for the log and the metrics.
struct ExchangeResult {
  int status = 0;  // 0: the client left before an answer began
  std::uint64_t bytes = 0;
  bool complete = false;   // the answer was written to its end
  bool timed_out = false;  // the client took nothing for HttpLimits::write_time
};

// Post() and left() may be called from any thread; everything else only on the thread of the
// connection: in the handler, in a function given to Post(), and in the callbacks. Calls after the
// end have no effect.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<Connection> connection, HttpRequest request);

  [[nodiscard]] const HttpRequest& request() const { return request_; }
  // The client's address and port.
  [[nodiscard]] const std::string& client() const { return client_; }

  // Index of the server's thread that runs the connection.
  [[nodiscard]] std::size_t thread() const { return thread_; }

  // Runs `work` on that thread, soon.
  void Post(std::function<void()> work);

  // Answers with a whole response and ends the exchange.
  void Respond(const HttpResponse& response);

  // Begins an answer whose body follows by Send(); `head.body` is not used.
  void StartStream(const HttpResponse& head);
  void Send(std::string_view bytes);
  void Finish();

  // Fetches memory that Send() needs into the caches. `stage` 0: this object; 1: its connection.
  void FetchAheadOfSend(int stage) const;

  // Closes the connection at once.
  void Abort();

  // True while the client waits for the answer or its rest.
  [[nodiscard]] bool open() const { return connection_ != nullptr; }
  // True if the client left before its answer was complete: work for it is in vain.
  [[nodiscard]] bool left() const { return left_; }
  [[nodiscard]] bool streaming() const { return streaming_; }
  // Bytes of the stream that the socket has not taken.
  [[nodiscard]] std::size_t unwritten_bytes() const;

  // The socket has taken everything that was sent.
  std::function<void()> on_drained;
  // The client left, or took too long to read: nobody reads the answer any more. Not called after
  // Respond() or Finish().
  std::function<void()> on_closed;
  // The handler's words about the exchange in the server's log.
  std::string log_text;
  // The exchange is over, in whatever way; the last callback of the handler.
  std::function<void(const ExchangeResult&)> on_done;

 private:
  friend class HttpServer;
  friend class Connection;

  // Called by the connection when the answer is written, or never will be.
  void End(bool complete, bool timed_out);

  std::function<void(const ExchangeResult&)> on_ended_;  // the server's, called last
  std::shared_ptr<Connection> connection_;               // null after the end
  HttpRequest request_;
  std::string client_;
  boost::asio::any_io_executor executor_;
  std::size_t thread_;
  bool streaming_ = false;
  bool answered_ = false;  // Respond() or Finish() was called
  ExchangeResult result_;
  std::atomic<bool> left_ = false;
};

}  // namespace twin::serve
