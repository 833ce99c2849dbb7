#include "apps/serve/http/connection.h"

#include <fmt/compile.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <iterator>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "core/check.h"

namespace twin::serve {
namespace {

using boost::asio::ip::tcp;

void SetOption(int socket, int level, int option, int value) {
  // Serves without an option that the kernel lacks.
  static_cast<void>(setsockopt(socket, level, option, &value, sizeof(value)));
}

void SetOptions(tcp::socket& socket, const HttpLimits& limits) {
  boost::system::error_code error;
  socket.non_blocking(true, error);
  const int handle = socket.native_handle();
  SetOption(handle, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(handle, SOL_SOCKET, SO_SNDBUF, limits.send_buffer_bytes);
  SetOption(handle, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(handle, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  SetOption(handle, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  SetOption(handle, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limits.write_time.count()));
}

std::string AddressOf(const tcp::socket& socket) {
  boost::system::error_code error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  return error ? "unknown" : fmt::format("{}:{}", peer.address().to_string(), peer.port());
}

constexpr std::size_t kSpareBytesMax = 64 << 10;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace

Connection::Connection(Socket socket, ConnectionHost& host, std::size_t thread)
    : socket_(std::move(socket)),
      host_(host),
      thread_(thread),
      spare_(host.SpareMemory(thread)),
      reader_(host.limits()),
      client_(AddressOf(socket_)),
      read_timer_(socket_.get_executor()),
      write_timer_(socket_.get_executor()) {
  SetOptions(socket_, host.limits());
}

void Connection::Start() {
  if (host_.draining()) return Close();
  SetReadTimer(host_.limits().idle_time);
  Read();
}

void Connection::Refuse() {
  HttpResponse response = ErrorResponse(503, "the server has no room for another connection");
  response.fields.push_back({"Retry-After", "1"});
  AnswerAndClose(response);
  if (!closed_) Read();
}

// Answers without an exchange. Later bytes are not read as a request.
void Connection::AnswerAndClose(const HttpResponse& response) {
  keep_alive_ = false;
  draining_before_close_ = true;
  Write(HeaderText(response, BodyFraming::kLength, false));
  Write(response.body);
  EndAnswer();
}

void Connection::Close() noexcept {
  if (closed_) return;
  closed_ = true;
  boost::system::error_code error;
  socket_.shutdown(tcp::socket::shutdown_both, error);
  socket_.close(error);
  read_timer_.cancel(error);
  write_timer_.cancel(error);
  FinishExchange(false, false);
  host_.OnConnectionEnd(this);
}

void Connection::CloseIdle() {
  if (exchange_ == nullptr && !draining_before_close_ && !write_pending_) Close();
}

// Reading

void Connection::Read() {
  socket_.async_read_some(boost::asio::buffer(input_),
                          [self = shared_from_this()](Error error, std::size_t bytes) {
                            self->Do([&] { self->OnRead(error, bytes); });
                          });
}

void Connection::OnRead(Error error, std::size_t bytes) {
  if (closed_) return;
  if (error) return Close();
  if (!draining_before_close_) {
    reader_.Append({input_.data(), bytes});
    if (exchange_ == nullptr) {
      AdvanceReader();
    } else if (reader_.buffered() > host_.limits().pipelined_bytes) {
      return Close();
    }
  }
  if (!closed_) Read();
}

void Connection::AdvanceReader() {
  using State = RequestReader::State;
  const State state = reader_.Advance();
  const Clock::time_point now = Clock::now();
  if (phase_ == State::kIdle && state != State::kIdle) begun_ = header_read_ = now;
  if (phase_ != State::kBody && (state == State::kBody || state == State::kComplete)) {
    header_read_ = now;
  }
  if (state == State::kFailed) return RefuseRequest();
  if (state == State::kComplete) return BeginExchange();
  if (reader_.TakeContinue()) {
    Write(kContinue);
    Flush();
  }
  if (state == phase_) return;
  phase_ = state;
  SetReadTimer(state == State::kHeader ? host_.limits().header_time : host_.limits().body_time);
}

void Connection::BeginExchange() {
  phase_ = RequestReader::State::kIdle;
  SetReadTimer(std::chrono::milliseconds{0});
  HttpRequest request = reader_.Take();
  request.begun = begun_;
  request.header_read = header_read_;
  request.body_read = Clock::now();
  ++requests_;
  keep_alive_ = request.keep_alive && requests_ < host_.limits().requests_per_connection;
  answer_ended_ = false;
  exchange_ = std::make_shared<Exchange>(shared_from_this(), std::move(request));
  host_.Handle(exchange_);
}

void Connection::RefuseRequest() {
  const HttpFailure& failure = reader_.failure();
  host_.OnRefusedRequest(failure.status);
  AnswerAndClose(ErrorResponse(failure.status, failure.message));
}

void Connection::SetReadTimer(std::chrono::milliseconds time) {
  if (time.count() == 0) {
    read_timer_.cancel();
    return;
  }
  read_timer_.expires_after(time);
  read_timer_.async_wait([self = shared_from_this()](Error error) {
    if (!error && !self->closed_) self->Do([&] { self->OnReadTimeout(); });
  });
}

void Connection::OnReadTimeout() {
  using State = RequestReader::State;
  // A handler that was queued before the timer was set anew comes too late.
  if (read_timer_.expiry() > Clock::now() || exchange_ != nullptr) return;
  if (draining_before_close_ || phase_ == State::kIdle) return Close();
  host_.OnRefusedRequest(408);
  const bool header = phase_ == State::kHeader;
  const auto limit = header ? host_.limits().header_time : host_.limits().body_time;
  AnswerAndClose(ErrorResponse(
      408, fmt::format("the {} took longer than {} s, the limit", header ? "header" : "body",
                       static_cast<double>(limit.count()) / 1000)));
}

// Writing

void Connection::StartAnswer(const HttpResponse& head, BodyFraming framing) {
  chunked_ = framing == BodyFraming::kChunks;
  keep_alive_ = keep_alive_ && !head.close && framing != BodyFraming::kClose && !host_.draining();
  Write(HeaderText(head, framing, keep_alive_));
}

void Connection::Write(std::string_view bytes) {
  TakeMemory();
  next_ += bytes;
}

// An empty chunk ends the body.
void Connection::WriteChunk(std::string_view bytes) {
  TakeMemory();
  if (chunked_) {
    fmt::format_to(std::back_inserter(next_), FMT_COMPILE("{:x}\r\n"), bytes.size());
  }
  next_ += bytes;
  if (chunked_) next_ += "\r\n";
}

void Connection::TakeMemory() {
  if (next_.empty()) next_.swap(spare_);
}

// Connections with nothing to write keep no memory for it.
void Connection::GiveMemoryBack() {
  writing_.clear();
  written_ = 0;
  if (writing_.capacity() <= kSpareBytesMax) spare_.swap(writing_);
  std::string().swap(writing_);
}

void Connection::Flush() {
  if (closed_ || write_pending_) return;
  writing_.swap(next_);
  // Most answers fit into the socket's buffer: no second turn of the event loop for them.
  boost::system::error_code error;
  written_ = socket_.write_some(boost::asio::buffer(writing_), error);
  if (error && error != boost::asio::error::would_block) return Close();
  if (written_ == writing_.size()) return GiveMemoryBack();
  write_pending_ = true;
  write_timer_.expires_after(host_.limits().write_time);
  write_timer_.async_wait([self = shared_from_this()](Error failed) {
    if (failed || self->closed_ || !self->write_pending_) return;
    if (self->write_timer_.expiry() > Clock::now()) return;
    self->Do([&] { self->FinishExchange(false, true); });
    self->Close();
  });
  boost::asio::async_write(socket_, boost::asio::buffer(writing_) + written_,
                           [self = shared_from_this()](Error failed, std::size_t bytes) {
                             self->Do([&] { self->OnWritten(failed, bytes); });
                           });
}

void Connection::OnWritten(Error error, std::size_t /*bytes*/) {
  write_pending_ = false;
  if (closed_) return;
  write_timer_.cancel();
  if (error) return Close();
  GiveMemoryBack();
  if (!next_.empty()) Flush();
  if (!closed_ && !write_pending_) OnAllWritten();
}

void Connection::OnAllWritten() {
  if (!answer_ended_) {
    const std::shared_ptr<Exchange> exchange = exchange_;
    if (exchange == nullptr) return;
    // A copy: the call may end the exchange, which drops its callbacks.
    const std::function<void()> drained = exchange->on_drained;
    if (drained) drained();
    return;
  }
  answer_ended_ = false;
  FinishExchange(true, false);
  if (!keep_alive_ || host_.draining()) return DrainBeforeClose();
  SetReadTimer(host_.limits().idle_time);
  // The next request may have been read already. It is posted: otherwise a client could deepen the
  // stack by a level with each request that it pipelines.
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->closed_ || self->exchange_ != nullptr || self->draining_before_close_) return;
    self->Do([&] { self->AdvanceReader(); });
  });
}

void Connection::EndAnswer() {
  answer_ended_ = true;
  Flush();
  if (!closed_ && !write_pending_) OnAllWritten();
}

void Connection::FinishExchange(bool complete, bool timed_out) {
  const std::shared_ptr<Exchange> exchange = std::exchange(exchange_, nullptr);
  if (exchange != nullptr) exchange->End(complete, timed_out);
}

// A socket closed with unread input resets the connection, and the client may then lose the
// answer. So the sending side ends first, and later input is read and dropped for a while.
void Connection::DrainBeforeClose() {
  draining_before_close_ = true;
  boost::system::error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  if (error) return Close();
  SetReadTimer(host_.limits().drain_before_close_time);
}

}  // namespace twin::serve
