// Limits on what one client may use (docs/serving.md lists the answers beyond a limit).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace twin::serve {

struct HttpLimits {
  std::size_t connections = 4096;
  std::size_t header_bytes = 16 << 10;  // request line and fields
  std::size_t fields = 100;
  std::size_t target_bytes = 8 << 10;
  std::size_t body_bytes = 16 << 20;
  std::size_t chunk_line_bytes = 8 << 10;        // a chunk's size with its extensions; trailers
  std::size_t pipelined_bytes = 64 << 10;        // read after a request in progress
  std::size_t unwritten_bytes = 256 << 10;       // of a stream, before tokens wait and merge
  std::size_t waiting_output_bytes = 1 << 20;    // of a stream, before its request is cancelled
  std::int32_t requests_per_connection = 10000;  // then the connection is closed
  std::int32_t send_buffer_bytes = 64 << 10;     // of the socket: bounds what a dead reader hides

  std::chrono::milliseconds header_time{10'000};  // first byte of a request to its last field
  std::chrono::milliseconds body_time{30'000};
  std::chrono::milliseconds idle_time{75'000};  // between requests
  std::chrono::milliseconds write_time{30'000};
  std::chrono::milliseconds drain_before_close_time{1'000};  // reading on after the last answer
};

}  // namespace twin::serve
