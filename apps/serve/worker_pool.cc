#include "apps/serve/worker_pool.h"

#include <boost/asio/post.hpp>

namespace twin::serve {

WorkerPool::WorkerPool(std::size_t threads) {
  threads_.reserve(threads);
  try {
    while (threads_.size() < threads) threads_.emplace_back([this] { context_.run(); });
  } catch (...) {
    Join();
    throw;
  }
}

void WorkerPool::Post(std::function<void()> work) { boost::asio::post(context_, std::move(work)); }

void WorkerPool::Join() {
  guard_.reset();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace twin::serve
