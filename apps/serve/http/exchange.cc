#include <new>
#include <type_traits>
#include <utility>

#include <boost/asio/post.hpp>

#include "apps/serve/http/connection.h"
#include "apps/serve/http/fetch_ahead.h"
#include "core/check.h"

namespace twin::serve {
namespace {

// Calls back. A callback that lacks memory must not keep the next one from being called.
template <class... Arguments>
void Notify(const std::function<void(Arguments...)>& callback,
            const std::type_identity_t<Arguments>&... arguments) {
  try {
    callback(arguments...);
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

Exchange::Exchange(std::shared_ptr<Connection> connection, HttpRequest request)
    : connection_(std::move(connection)),
      request_(std::move(request)),
      client_(connection_->client_),
      executor_(connection_->executor()),
      thread_(connection_->thread_) {}

void Exchange::Post(std::function<void()> work) {
  boost::asio::post(executor_, [self = shared_from_this(), work = std::move(work)] {
    // The closure holds the exchange: the work may end it.
    if (const std::shared_ptr<Connection> connection = self->connection_) {
      connection->Do(work);
    } else {
      work();
    }
  });
}

void Exchange::Respond(const HttpResponse& response) {
  if (!open() || answered_) return;
  CHECK(!streaming_);
  answered_ = true;
  const std::shared_ptr<Connection> connection = connection_;
  result_.status = response.status;
  connection->StartAnswer(response, BodyFraming::kLength);
  if (request_.method != "HEAD") {
    result_.bytes = response.body.size();
    connection->Write(response.body);
  }
  connection->EndAnswer();
}

void Exchange::StartStream(const HttpResponse& head) {
  if (!open() || answered_) return;
  CHECK(!streaming_);
  streaming_ = true;
  result_.status = head.status;
  connection_->StartAnswer(head, request_.http_1_0 ? BodyFraming::kClose : BodyFraming::kChunks);
}

void Exchange::Send(std::string_view bytes) {
  if (!open() || answered_ || bytes.empty()) return;
  CHECK(streaming_);
  result_.bytes += bytes.size();
  const std::shared_ptr<Connection> connection = connection_;
  connection->WriteChunk(bytes);
  connection->Flush();
}

void Exchange::FetchAheadOfSend(int stage) const {
  if (stage == 0) return FetchAhead(this, sizeof(*this));
  if (!open()) return;
  FetchAhead(&connection_->socket_, 2 * kCacheLineBytes);
  FetchAhead(&connection_->writing_, 2 * kCacheLineBytes);
}

void Exchange::Finish() {
  if (!open() || answered_) return;
  CHECK(streaming_);
  answered_ = true;
  const std::shared_ptr<Connection> connection = connection_;
  connection->WriteChunk({});
  connection->EndAnswer();
}

void Exchange::Abort() {
  if (!open()) return;
  const std::shared_ptr<Connection> connection = connection_;
  connection->Close();
}

std::size_t Exchange::unwritten_bytes() const {
  if (!open()) return 0;
  return connection_->writing_.size() - connection_->written_ + connection_->next_.size();
}

void Exchange::End(bool complete, bool timed_out) {
  result_.complete = complete;
  result_.timed_out = timed_out;
  connection_.reset();
  const bool left = !answered_;
  // The callbacks are dropped: they hold the owners of this exchange.
  const auto closed = std::exchange(on_closed, nullptr);
  const auto done = std::exchange(on_done, nullptr);
  on_drained = nullptr;
  left_ = left;
  const auto ended = std::exchange(on_ended_, nullptr);
  if (left && closed) Notify(closed);
  if (done) Notify(done, result_);
  if (ended) Notify(ended, result_);
}

}  // namespace twin::serve
