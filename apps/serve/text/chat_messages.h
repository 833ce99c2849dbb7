// Messages of a chat request in the form that templates expect.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace twin::text {

struct MessageForm {
  // The template visits the parts of a content, which are joined by line ends otherwise.
  bool keeps_parts = false;
  // The template knows the role developer, which is taken for system otherwise.
  bool knows_developer = false;
};

// The messages as vLLM and transformers hand them to a template: contents as above, an absent or
// null one as ""; reasoning under each of its names (reasoning_content, thinking); arguments of
// tool calls, which the protocol sends as text, parsed. Throws InputError (data) for what is no
// message, and for parts other than text.
nlohmann::ordered_json FormMessages(const nlohmann::ordered_json& messages,
                                    const MessageForm& form);

// transformers' continue_final_message: marks the end of the last message's content, and cuts the
// rendered prompt at the mark.
class FinalMessage {
 public:
  // Adds the mark. Throws InputError (data) if there is no text to continue.
  explicit FinalMessage(nlohmann::ordered_json& messages);

  // Throws InputError (data) if the template did not print the message.
  [[nodiscard]] std::string Cut(std::string prompt) const;

 private:
  std::string content_;
};

}  // namespace twin::text
