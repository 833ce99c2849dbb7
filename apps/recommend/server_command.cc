#include "apps/recommend/server_command.h"

#include "apps/recommend/server_settings.h"
#include "config/servers/launch_command.h"
#include "config/servers/servers.h"
#include "core/check.h"

namespace twin::run {

std::string ServerCommand(const Candidate& candidate) {
  const CandidateSettings& choice = candidate.choice;
  if (choice.layout.ffn) return "";
  const std::optional<ListedServer> listed = FindServer(choice.server);
  CHECK(listed.has_value());
  return listed->server->launch_command(
      {.checkpoint = candidate.checkpoint,
       .parallelism = choice.layout.parallelism,
       .weight_dtype = choice.weight_dtype,
       .context_tokens = candidate.deployment.context_tokens_max,
       .gpu_memory_utilization = choice.gpu_memory_utilization,
       .token_budget = choice.token_budget,
       .max_num_seqs = choice.max_num_seqs,
       .max_batch_total_tokens = choice.max_batch_total_tokens,
       .waiting_served_ratio = choice.waiting_served_ratio,
       .max_concurrent_requests = kUnlimitedConcurrency,
       .schedule_policy = choice.schedule_policy,
       .chunks_prefills = choice.context_chunking_policy == "FIRST_COME_FIRST_SERVED",
       .separates_prefill = choice.layout.prefill_replicas > 0});
}

}  // namespace twin::run
