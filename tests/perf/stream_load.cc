// Drives a server with many streams at once, cheaply enough to run beside it on few cores: one
// thread, one receive for whatever has come, no JSON, no allocation per token. Each stream asks
// again as soon as it has its answer. Writes when each event came.
//
// On the machine of the server it takes cores from it, and whoever sends to a thread that sleeps
// must wake it, which a client on another machine demands of nobody. With --look-us it therefore
// looks at its sockets now and then; its own times are then late by up to so much.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/random.h"

namespace twin {
namespace {

struct Options {
  std::uint16_t port = 0;
  std::int64_t streams = 1000;
  std::int64_t requests = 10'000;
  std::int64_t prompt_tokens = 200;
  std::int64_t tokens_min = 100;
  std::int64_t tokens_max = 300;
  double whole_share = 0;    // of the requests, answered whole
  std::int64_t look_us = 0;  // between two looks at the sockets; 0: whenever something comes
  std::uint64_t seed = 0;
  std::string out;
};

std::int64_t NowNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// Of this process, user and system.
double CpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

[[noreturn]] void Fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

struct Asked {
  std::int64_t tokens = 0;
  bool whole = false;
  std::int64_t sent_ns = 0;
  std::vector<std::int64_t> event_ns;  // of a stream
};

// One answer, recognised by as few of its bytes as possible.
class AnswerReader {
 public:
  // Whether the answer is complete. Counts the events in `events`.
  bool Take(std::string_view bytes, std::int64_t& events) {
    if (length_ > 0) return TakeWhole(bytes.size());
    // A mark may lie across two receives.
    text_.append(bytes);
    if (!header_) {
      const std::size_t end = text_.find("\r\n\r\n");
      if (end == std::string::npos) return false;
      ReadHeader(std::string_view(text_).substr(0, end + 2));
      text_.erase(0, end + 4);
      if (length_ > 0) return TakeWhole(text_.size());
    }
    constexpr std::string_view kEvent = "data: {";
    constexpr std::string_view kEnd = "\r\n0\r\n\r\n";
    std::size_t seen = 0;
    for (std::size_t at = 0; (at = text_.find(kEvent, at)) != std::string::npos; ++events) {
      at += kEvent.size();
      seen = at;
    }
    const bool complete = text_.ends_with(kEnd);
    text_.erase(0, std::max(seen, text_.size() - std::min(text_.size(), kEnd.size() - 1)));
    return complete;
  }

  [[nodiscard]] bool refused() const { return refused_; }
  void Restart() { *this = {}; }

 private:
  bool TakeWhole(std::size_t bytes) {
    taken_ += bytes;
    return taken_ >= length_;
  }

  void ReadHeader(std::string_view header) {
    header_ = true;
    refused_ = !header.starts_with("HTTP/1.1 200");
    constexpr std::string_view kField = "Content-Length: ";
    const std::size_t field = header.find(kField);
    if (field == std::string_view::npos) return;
    std::from_chars(header.data() + field + kField.size(), header.data() + header.size(), length_);
  }

  std::string text_;
  bool header_ = false;
  bool refused_ = false;
  std::size_t length_ = 0;  // of a whole answer; 0: it comes in chunks
  std::size_t taken_ = 0;
};

class Load {
 public:
  explicit Load(const Options& options)
      : options_(options), random_(options.seed, "stream_load"), epoll_(epoll_create1(0)) {
    asked_.reserve(static_cast<std::size_t>(options.requests));
    streams_.resize(static_cast<std::size_t>(std::min(options.streams, options.requests)));
  }

  void Run() {
    for (Stream& stream : streams_) Connect(stream);
    const std::int64_t begin = NowNs();
    for (Stream& stream : streams_) Ask(stream);
    std::vector<epoll_event> events(streams_.size());
    constexpr std::int64_t kPatienceNs = 60'000'000'000;
    std::int64_t came_ns = begin;
    const std::chrono::microseconds look(options_.look_us);
    while (done_ < options_.requests) {
      if (options_.look_us > 0) std::this_thread::sleep_for(look);
      const int count =
          epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                     options_.look_us > 0 ? 0 : static_cast<int>(kPatienceNs / 1'000'000));
      if (count > 0) came_ns = NowNs();
      if (NowNs() - came_ns >= kPatienceNs) throw std::runtime_error("nothing came for 60 s");
      for (int i = 0; i < count; ++i) {
        Receive(streams_[events[static_cast<std::size_t>(i)].data.u64]);
      }
    }
    seconds_ = static_cast<double>(NowNs() - begin) * 1e-9;
    for (const Stream& stream : streams_) close(stream.socket);
  }

  void Report() const {
    std::int64_t tokens = 0;
    for (const Asked& asked : asked_) tokens += asked.tokens;
    fmt::print(R"({{"requests":{},"refused":{},"tokens":{},"seconds":{:.3f},"cpu_seconds":{:.3f}}})"
               "\n",
               asked_.size(), refused_, tokens, seconds_, CpuSeconds());
    if (options_.out.empty()) return;
    std::ofstream file(options_.out);
    file << "request,tokens,sent_ns,event_ns\n";
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      if (asked_[i].whole) continue;
      file << fmt::format("load-{},{},{},{}\n", i, asked_[i].tokens, asked_[i].sent_ns,
                          fmt::join(asked_[i].event_ns, " "));
    }
    file.close();
    if (!file) Fail(options_.out.c_str());
  }

 private:
  struct Stream {
    int socket = -1;
    std::size_t asked = 0;  // index of the latest request
    AnswerReader reader;
  };

  void Connect(Stream& stream) {
    stream.socket = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(options_.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(stream.socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      Fail("connect");
    }
    const int on = 1;
    setsockopt(stream.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = static_cast<std::uint64_t>(&stream - streams_.data());
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, stream.socket, &event) != 0) Fail("epoll_ctl");
  }

  void Ask(Stream& stream) {
    if (static_cast<std::int64_t>(asked_.size()) == options_.requests) return;
    stream.asked = asked_.size();
    stream.reader.Restart();
    Asked& asked = asked_.emplace_back();
    asked.tokens = random_.UniformInt(options_.tokens_min, options_.tokens_max);
    asked.whole = random_.UnitReal() < options_.whole_share;
    if (!asked.whole) asked.event_ns.reserve(static_cast<std::size_t>(asked.tokens));
    const std::string text = RequestText(stream.asked, asked);
    asked.sent_ns = NowNs();
    // The sockets wait: a request is smaller than their buffers.
    if (send(stream.socket, text.data(), text.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(text.size())) {
      Fail("send");
    }
  }

  std::string RequestText(std::size_t index, const Asked& asked) {
    std::string body = "{\"prompt\":[";
    for (std::int64_t i = 0; i < options_.prompt_tokens; ++i) {
      fmt::format_to(std::back_inserter(body), "{}{}", i == 0 ? "" : ",",
                     random_.UniformInt(0, 31'999));
    }
    fmt::format_to(std::back_inserter(body),
                   R"(],"max_tokens":{},"ignore_eos":true,"temperature":0,"stream":{}}})",
                   asked.tokens, !asked.whole);
    return fmt::format(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "X-Request-Id: load-{}\r\nContent-Length: {}\r\n\r\n{}",
        index, body.size(), body);
  }

  void Receive(Stream& stream) {
    char bytes[16384];
    const ssize_t count = recv(stream.socket, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) throw std::runtime_error("the server ended a connection");
    Asked& asked = asked_[stream.asked];
    std::int64_t events = 0;
    const bool complete = stream.reader.Take({bytes, static_cast<std::size_t>(count)}, events);
    const std::int64_t now = NowNs();
    for (std::int64_t i = 0; i < events; ++i) asked.event_ns.push_back(now);
    if (!complete) return;
    if (stream.reader.refused()) ++refused_;
    ++done_;
    Ask(stream);
  }

  const Options options_;
  Random random_;
  int epoll_;
  std::vector<Stream> streams_;
  std::vector<Asked> asked_;
  std::int64_t done_ = 0;
  std::int64_t refused_ = 0;
  double seconds_ = 0;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Drives a server of OpenAI's completions with many streams at once.");
  app.add_option("--port", options.port, "Port on 127.0.0.1")->required();
  app.add_option("--streams", options.streams, "Requests under way at once")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--requests", options.requests, "Requests in all")
      ->check(CLI::Range(1, 100'000'000));
  app.add_option("--prompt-tokens", options.prompt_tokens, "Token ids of a prompt")
      ->check(CLI::Range(1, 10'000));
  app.add_option("--tokens-min", options.tokens_min, "Tokens of the shortest answer")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--tokens-max", options.tokens_max, "Tokens of the longest answer")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--whole-share", options.whole_share, "Share of answers that are not streamed")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option(
         "--look-us", options.look_us,
         "Microseconds between two looks at the sockets (default: whenever something comes)")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--seed", options.seed, "Of prompts and lengths");
  app.add_option("--out", options.out, "File for the times of events (CSV)");
  CLI11_PARSE(app, argc, argv);
  try {
    Load load(options);
    load.Run();
    load.Report();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace twin

int main(int argc, char** argv) { return twin::Main(argc, argv); }
