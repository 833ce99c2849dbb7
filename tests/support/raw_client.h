// A client on a plain socket, for tests of servers: sends the bytes it is told to.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace twin {

class RawClient {
 public:
  // Connects to 127.0.0.1. `receive_buffer_bytes`: of the socket; 0 = the system's choice.
  explicit RawClient(std::uint16_t port, int receive_buffer_bytes = 0);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // Whether the connection took all of it.
  bool Send(std::string_view bytes);
  // Reads until `end` was read, the connection ended, or `time` is over; what was read since the
  // last call, with `end`.
  std::string ReadUntil(std::string_view end,
                        std::chrono::milliseconds time = std::chrono::seconds(10));
  // Reads to the end of the connection.
  std::string ReadAll(std::chrono::milliseconds time = std::chrono::seconds(10));
  // A response with Content-Length: its header and body.
  std::string ReadResponse(std::chrono::milliseconds time = std::chrono::seconds(10));
  // The connection was ended or reset by the other side.
  [[nodiscard]] bool ended() const { return ended_; }

  void CloseSendingSide();
  // Ends the connection with a reset.
  void Reset();

 private:
  bool ReadMore(std::chrono::steady_clock::time_point end);

  int socket_ = -1;
  std::string buffer_;
  bool ended_ = false;
};

// The status of a response; 0 if it is none.
int StatusOf(std::string_view response);
// What follows the header.
std::string BodyOf(std::string_view response);
// The body of a response in chunks, put together. Throws std::runtime_error if it is cut.
std::string BodyOfChunks(std::string_view response);

// A POST request with a JSON body.
std::string PostText(std::string_view path, std::string_view body, std::string_view fields = "");
std::string GetText(std::string_view path, std::string_view fields = "");

}  // namespace twin
