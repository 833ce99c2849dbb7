// A front on a real socket over a scripted service, and the words to talk to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/serve/front_options.h"
#include "apps/serve/text/tokenizer.h"
#include "tests/support/raw_client.h"
#include "tests/support/scripted_service.h"

namespace twin::serve {

// Tokens are bytes (ByteTokenizer). The chat template writes "<role>content" for each message, then
// "<assistant>"; it refuses the role "refused".
class ServedFront {
 public:
  using Json = nlohmann::ordered_json;

  // `tokenizer` takes the place of a ByteTokenizer, and must outlive the front.
  explicit ServedFront(FrontOptions options = {}, const text::Tokenizer* tokenizer = nullptr);
  ~ServedFront();

  // One exchange on a connection of its own.
  [[nodiscard]] std::string Ask(const std::string& request) const;
  // The body of the answer.
  Json Post(const std::string& path, const std::string& body) const;
  // The data of each event of a stream.
  [[nodiscard]] std::vector<std::string> Stream(const std::string& path,
                                                const std::string& body) const;
  static std::vector<std::string> EventsOf(const std::string& text);

  [[nodiscard]] std::vector<std::string> log() const;
  [[nodiscard]] std::uint16_t port() const;

  ScriptedService service;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Whether it holds within ten seconds.
bool Eventually(const std::function<bool()>& holds);

}  // namespace twin::serve
