// Conversations: lengths and content of each turn. Their arrival times are set in
// arrival_sources.h.
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

// The state of a conversation between two turns. A copy continues with the same turns.
struct Conversation {
  Random random{0, ""};       // draws all lengths and content
  std::uint64_t content = 0;  // identifies its content in prefix chunks
  std::int64_t system = -1;   // its system prompt; -1 = none
  std::uint64_t session = 0;  // 0 = a single request
  std::uint32_t tenant = 0;   // index within the class
  std::uint32_t class_index = 0;
  std::int32_t turns_left = 0;
  // Tokens of the earlier turns' prompts and of the answers that were given.
  std::int32_t context_tokens = 0;
};

// Produces conversations and their turns.
class ConversationSource {
 public:
  virtual ~ConversationSource() = default;

  // Starts the next conversation; false at the end.
  virtual bool Begin(Conversation& conversation) = 0;

  // Assigns all fields of the next turn to `request` except its arrival. The same turn of a copy is
  // identical. Returns false if the next turn would exceed the context limit. REQUIRES:
  // turns_left > 0; the conversation is the latest one, or has several turns.
  virtual bool AssignTurn(Conversation& conversation, TracedRequest& request) = 0;

  // Draws the think time before the conversation's next turn.
  virtual Duration DrawThink(Conversation& conversation) = 0;
};

// Draws conversations of one RequestShape.
class ShapeSampler {
 public:
  // Tenants are numbered from `first_tenant`. `salt` makes content of different shapes different.
  ShapeSampler(const RequestShape& shape, std::uint32_t first_tenant, std::uint64_t salt,
               const RequestRules& rules);

  // REQUIRES: conversation.random and .content are set.
  void Begin(Conversation& conversation) const;
  bool AssignTurn(Conversation& conversation, TracedRequest& request) const;
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

// Conversation k depends on (seed, k) only; its class is drawn by weight.
std::unique_ptr<ConversationSource> DrawnConversations(std::vector<ShapeSampler> shapes,
                                                       const std::vector<double>& weights,
                                                       std::uint64_t seed);

// Each request of the stream becomes a conversation of one turn. `seed` draws the think times of a
// closed loop.
std::unique_ptr<ConversationSource> SingleTurns(std::unique_ptr<RequestStream> stream,
                                                std::uint64_t seed);

}  // namespace twin
