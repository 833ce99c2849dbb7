#include "tests/unit/serve/served_front.h"

#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "apps/serve/serving_front.h"
#include "core/input_error.h"
#include "tests/support/byte_tokenizer.h"

namespace twin::serve {
namespace {

std::string RenderMessages(const ChatPrompt& chat) {
  std::string text;
  for (const auto& message : chat.messages) {
    const auto& role = message["role"].get_ref<const std::string&>();
    if (role == "refused") {
      throw InputError(InputError::Kind::kData, "chat template", "no such role");
    }
    text += "<" + role + ">";
    if (message["content"].is_string()) text += message["content"].get<std::string>();
    if (!message["content"].is_array()) continue;
    for (const auto& part : message["content"]) text += part["text"].get<std::string>() + "|";
  }
  return chat.add_generation_prompt ? text + "<assistant>" : text;
}

}  // namespace

struct ServedFront::Parts {
  ByteTokenizer tokenizer;
  std::mutex mutex;  // of log
  std::vector<std::string> log;
  std::optional<ServingFront> front;
};

ServedFront::ServedFront(FrontOptions options, const text::Tokenizer* tokenizer)
    : parts_(std::make_unique<Parts>()) {
  options.version = "1.0";
  if (tokenizer == nullptr) tokenizer = &parts_->tokenizer;
  parts_->front.emplace(service, TextTools{tokenizer, &RenderMessages}, std::move(options),
                        "127.0.0.1", std::uint16_t{0}, [this](const std::string& line) {
                          const std::lock_guard lock(parts_->mutex);
                          parts_->log.push_back(line);
                        });
  parts_->front->Start();
}

ServedFront::~ServedFront() { parts_->front.reset(); }

std::string ServedFront::Ask(const std::string& request) const {
  RawClient client(port());
  client.Send(request);
  std::string response = client.ReadUntil("\r\n\r\n");
  if (response.find("Transfer-Encoding: chunked") != std::string::npos) {
    return response + client.ReadUntil("\r\n0\r\n\r\n");
  }
  client.CloseSendingSide();
  return response + client.ReadAll();
}

ServedFront::Json ServedFront::Post(const std::string& path, const std::string& body) const {
  return Json::parse(BodyOf(Ask(PostText(path, body))));
}

std::vector<std::string> ServedFront::Stream(const std::string& path,
                                             const std::string& body) const {
  return EventsOf(BodyOfChunks(Ask(PostText(path, body))));
}

std::vector<std::string> ServedFront::EventsOf(const std::string& text) {
  std::vector<std::string> events;
  std::size_t at = 0;
  while (text.compare(at, 6, "data: ") == 0) {
    const std::size_t end = text.find("\n\n", at);
    events.push_back(text.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return events;
}

std::vector<std::string> ServedFront::log() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->log;
}

std::uint16_t ServedFront::port() const { return parts_->front->port(); }

bool Eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace twin::serve
