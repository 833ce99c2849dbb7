#include "traces/conversation.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/hash.h"
#include "traces/trace_limits.h"

namespace twin {
namespace {

class DrawnConversationSource final : public ConversationSource {
 public:
  DrawnConversationSource(std::vector<ShapeSampler> shapes, const std::vector<double>& weights,
                          std::uint64_t seed)
      : shapes_(std::move(shapes)), class_choice_(weights), seed_(seed) {}

  bool Begin(Conversation& conversation) override {
    ++number_;
    conversation.content = MixWords(seed_, number_);
    conversation.random = Random(conversation.content, "conversation");
    conversation.session = number_;
    conversation.class_index = static_cast<std::uint32_t>(class_choice_.Draw(conversation.random));
    shapes_[conversation.class_index].Begin(conversation);
    return true;
  }

  bool AssignTurn(Conversation& conversation, TracedRequest& request) override {
    return shapes_[conversation.class_index].AssignTurn(conversation, request);
  }

  Duration DrawThink(Conversation& conversation) override {
    return DrawDuration(shapes_[conversation.class_index].think(), conversation.random);
  }

 private:
  std::vector<ShapeSampler> shapes_;
  WeightedChoice class_choice_;
  std::uint64_t seed_;
  std::uint64_t number_ = 0;
};

class SingleTurnSource final : public ConversationSource {
 public:
  SingleTurnSource(std::unique_ptr<RequestStream> stream, std::uint64_t seed)
      : stream_(std::move(stream)), seed_(seed) {}

  bool Begin(Conversation& conversation) override {
    if (!stream_->Next(request_)) return false;
    conversation = Conversation{};
    conversation.random = Random(MixWords(seed_, number_++), "single turn");
    conversation.turns_left = 1;
    return true;
  }

  bool AssignTurn(Conversation& conversation, TracedRequest& request) override {
    conversation.turns_left = 0;
    request = request_;
    return true;
  }

  Duration DrawThink(Conversation&) override { return {}; }

 private:
  std::unique_ptr<RequestStream> stream_;
  std::uint64_t seed_;
  TracedRequest request_;
  std::uint64_t number_ = 0;
};

}  // namespace

ShapeSampler::ShapeSampler(const RequestShape& shape, std::uint32_t first_tenant,
                           std::uint64_t salt, const RequestRules& rules)
    : shape_(shape), rules_(rules), first_tenant_(first_tenant), salt_(salt) {
  std::vector<double> weights;
  for (const TenantConfig& tenant : shape.tenants) {
    weights.push_back(tenant.weight);
    tenants_.push_back({IntegerSampler(tenant.prompt.value_or(shape.prompt)),
                        IntegerSampler(tenant.output.value_or(shape.output)),
                        tenant.priority.value_or(shape.priority)});
  }
  if (tenants_.empty()) {
    tenants_.push_back(
        {IntegerSampler(shape.prompt), IntegerSampler(shape.output), shape.priority});
  }
  if (weights.size() > 1) tenant_choice_.emplace(weights);
  if (shape.sessions.turns.kind != IntegerDistribution::Kind::kNone) {
    turns_.emplace(shape.sessions.turns);
  }
  if (shape.shared_prefix.prompts > 0) {
    system_prompts_.emplace(shape.shared_prefix.prompts, shape.shared_prefix.zipf_exponent);
  }
}

std::uint32_t ShapeSampler::tenants() const { return static_cast<std::uint32_t>(tenants_.size()); }

void ShapeSampler::Begin(Conversation& conversation) const {
  Random& random = conversation.random;
  conversation.tenant =
      tenant_choice_ ? static_cast<std::uint32_t>(tenant_choice_->Draw(random)) : 0;
  conversation.system = system_prompts_ ? system_prompts_->Draw(random) : -1;
  conversation.turns_left = turns_ ? turns_->Draw(random) : 1;
  conversation.context_tokens = 0;
  if (!turns_) conversation.session = 0;
}

bool ShapeSampler::AssignTurn(Conversation& conversation, TracedRequest& request) const {
  CHECK(conversation.turns_left > 0);
  const Tenant& tenant = tenants_[conversation.tenant];
  const bool first = conversation.context_tokens == 0;
  const std::int64_t before =
      !first ? conversation.context_tokens
             : (conversation.system >= 0 ? shape_.shared_prefix.tokens : std::int64_t{0});
  const std::int64_t context_max =
      shape_.sessions.context_tokens_max > 0 ? shape_.sessions.context_tokens_max : kTokensMax;
  std::int64_t prompt = before + tenant.prompt.Draw(conversation.random);
  request.output_tokens = tenant.output.Draw(conversation.random);
  request.max_output_tokens = 0;
  rules_.ApplyLimit(request);
  if (prompt + request.output_tokens > context_max) {
    if (!first) return false;
    // The first turn is always sent, cut to the context limit: first the output to half the limit,
    // then the prompt.
    request.output_tokens =
        static_cast<std::int32_t>(std::min<std::int64_t>(request.output_tokens, context_max / 2));
    prompt = std::min(prompt, context_max - request.output_tokens);
    rules_.ApplyLimit(request);
  }
  request.prompt_tokens = static_cast<std::int32_t>(prompt);
  request.predicted_output_tokens = -1;
  request.priority = tenant.priority;
  request.tenant = first_tenant_ + conversation.tenant;
  request.session = conversation.session;
  NameContent(conversation, request);
  --conversation.turns_left;
  conversation.context_tokens = request.prompt_tokens;
  return true;
}

// A conversation only grows at its end, so (conversation, position) identifies a chunk and all
// chunks before it. A chunk inside the system prompt is identified by (system prompt, position).
void ShapeSampler::NameContent(const Conversation& conversation, TracedRequest& request) const {
  request.prefix_chunks.clear();
  request.prefix_chunk_tokens = 0;
  if (!turns_ && !system_prompts_) return;
  const std::int32_t chunk = shape_.prefix_chunk_tokens;
  const std::int32_t count = (request.prompt_tokens + request.output_tokens) / chunk;
  const std::int32_t shared =
      conversation.system >= 0
          ? std::min(shape_.shared_prefix.tokens, request.prompt_tokens) / chunk
          : 0;
  const std::uint64_t system = MixWords(salt_, static_cast<std::uint64_t>(conversation.system));
  for (std::int32_t i = 0; i < count; ++i) {
    request.prefix_chunks.push_back(
        MixWords(i < shared ? system : conversation.content, static_cast<std::uint64_t>(i)));
  }
  if (count > 0) request.prefix_chunk_tokens = chunk;
}

std::unique_ptr<ConversationSource> DrawnConversations(std::vector<ShapeSampler> shapes,
                                                       const std::vector<double>& weights,
                                                       std::uint64_t seed) {
  return std::make_unique<DrawnConversationSource>(std::move(shapes), weights, seed);
}

std::unique_ptr<ConversationSource> SingleTurns(std::unique_ptr<RequestStream> stream,
                                                std::uint64_t seed) {
  return std::make_unique<SingleTurnSource>(std::move(stream), seed);
}

}  // namespace twin
