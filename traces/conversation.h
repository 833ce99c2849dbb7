// Conversations: what is said in each turn, apart from when.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/traced_request.h"
#include "traces/integer_sampler.h"
#include "traces/request_rules.h"
#include "traces/request_stream.h"
#include "traces/workload.h"

namespace twin {

// A conversation between two turns. A copy says the same in its next turns.
struct Conversation {
  Random random{0, ""};       // draws everything that this conversation says
  std::uint64_t content = 0;  // names its content
  std::int64_t system = -1;   // its system prompt; -1 = none
  std::uint64_t session = 0;  // 0 = a single request
  std::uint32_t tenant = 0;   // within the class
  std::uint32_t class_index = 0;
  std::int32_t turns_left = 0;
  std::int32_t context_tokens = 0;  // prompts and outputs of the turns before
};

// Where conversations come from.
class ConversationSource {
 public:
  virtual ~ConversationSource() = default;

  // The next conversation; false at the end.
  virtual bool Begin(Conversation& conversation) = 0;

  // Assigns the next turn to `request`, all but its arrival. Saying a turn again from a copy gives
  // the same. False: there is no room for another turn. REQUIRES: turns_left > 0; the source's
  // latest conversation or one of several turns.
  virtual bool SayTurn(Conversation& conversation, TracedRequest& request) = 0;

  // The pause before the conversation's next turn.
  virtual Duration DrawThink(Conversation& conversation) = 0;
};

// One shape's part in drawing.
class ShapeSampler {
 public:
  // Tenants are numbered from `first_tenant`. `salt` keeps the content of shapes apart.

  ShapeSampler(const RequestShape& shape, std::uint32_t first_tenant, std::uint64_t salt,
               const RequestRules& rules);

  // REQUIRES: conversation.random and .content are set.
  void Begin(Conversation& conversation) const;
  bool SayTurn(Conversation& conversation, TracedRequest& request) const;
  [[nodiscard]] const DurationDistribution& think() const { return shape_.sessions.think; }
  [[nodiscard]] std::uint32_t tenants() const;

 private:
  struct Tenant {
    IntegerSampler prompt;
    IntegerSampler output;
    std::int32_t priority;
  };
  void NameContent(const Conversation& conversation, TracedRequest& request) const;

  RequestShape shape_;
  RequestRules rules_;
  std::uint32_t first_tenant_;
  std::uint64_t salt_;
  std::vector<Tenant> tenants_;
  std::optional<WeightedChoice> tenant_choice_;
  std::optional<IntegerSampler> turns_;
  std::optional<ZipfDistribution> system_prompts_;
};

// Conversation k is drawn from (seed, k) alone, its class by weight.
std::unique_ptr<ConversationSource> DrawnConversations(std::vector<ShapeSampler> shapes,
                                                       const std::vector<double>& weights,
                                                       std::uint64_t seed);

// Every request of the stream as a conversation of one turn; the seed is for what follows it.
std::unique_ptr<ConversationSource> SingleTurns(std::unique_ptr<RequestStream> stream,
                                                std::uint64_t seed);

}  // namespace twin
