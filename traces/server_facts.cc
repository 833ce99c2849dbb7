#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "core/letter_case.h"
#include "traces/benchmark_readers.h"

namespace twin {
namespace {

struct KnownKey {
  std::string_view key;
  std::string_view option;
};

// Names of settings as metadata of vLLM's benchmark, the arguments of SGLang's server, and people
// write them. Capitals, _ and - do not count.
constexpr KnownKey kKeys[] = {{"model_id", "--model"},
                              {"model_path", "--model"},
                              {"model", "--model"},
                              {"server", "--server"},
                              {"server_version", "--server"},
                              {"vllm_version", "--server"},
                              {"engine_version", "--server"},
                              {"hardware", "--hardware"},
                              {"device", "--hardware"},
                              {"gpu", "--hardware"},
                              {"gpu_type", "--hardware"},
                              {"gpu_name", "--hardware"},
                              {"tp", "--tp"},
                              {"tp_size", "--tp"},
                              {"tensor_parallel", "--tp"},
                              {"tensor_parallel_size", "--tp"},
                              {"pp", "--pp"},
                              {"pp_size", "--pp"},
                              {"pipeline_parallel", "--pp"},
                              {"pipeline_parallel_size", "--pp"},
                              {"dp_size", "--replicas"},
                              {"data_parallel_size", "--replicas"},
                              {"num_gpu_blocks", kFactKvBlocks},
                              {"kv_blocks", kFactKvBlocks},
                              {"max_total_num_tokens", kFactKvTokens},
                              {"max_num_batched_tokens", "--max-num-batched-tokens"},
                              {"max_num_seqs", "--max-num-seqs"},
                              {"max_model_len", "--max-model-len"},
                              {"gpu_memory_utilization", "--gpu-memory-utilization"},
                              {"enable_prefix_caching", "--enable-prefix-caching"},
                              {"kv_cache_dtype", "--kv-cache-dtype"},
                              {"quantization", "--quantization"},
                              {"chunked_prefill_size", "--chunked-prefill-size"},
                              {"max_running_requests", "--max-running-requests"},
                              {"mem_fraction_static", "--mem-fraction-static"},
                              {"context_length", "--context-length"},
                              {"schedule_policy", "--schedule-policy"},
                              {"disable_radix_cache", "--disable-radix-cache"}};

std::string TextOf(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// "1 of one" replica, the server's own choice and a feature that is off say nothing.
bool SaysNothing(std::string_view option, std::string_view text) {
  const bool flag = option == "--disable-radix-cache";
  return text.empty() || (option == "--replicas" && text == "1") ||
         (option == "--kv-cache-dtype" && text == "auto") ||
         (flag && EqualsIgnoringCase(text, "false"));
}

}  // namespace

std::string_view OptionOfKey(std::string_view key) {
  const auto* const found = std::ranges::find_if(
      kKeys, [&](const KnownKey& known) { return EqualsIgnoringSeparators(known.key, key); });
  return found == std::end(kKeys) ? std::string_view() : found->option;
}

void AddFact(std::string_view key, const nlohmann::json& value, const std::string& origin,
             BenchmarkRun& run) {
  std::string_view option = OptionOfKey(key);
  if (option.empty() || value.is_null() || value.is_structured()) return;
  std::string text = TextOf(value);
  if (SaysNothing(option, text)) return;
  if (option == "--enable-prefix-caching") {
    if (EqualsIgnoringCase(text, "false")) option = "--no-enable-prefix-caching";
    text.clear();
  } else if (option == "--disable-radix-cache") {
    text.clear();
  }
  // A bare version is the server's whose name the key has.
  const bool version = option == "--server" && !text.empty() && text[0] >= '0' && text[0] <= '9';
  if (version && EqualsIgnoringSeparators(key, "vllm_version")) text.insert(0, "vLLM ");
  const bool known =
      std::ranges::any_of(run.facts, [&](const ServerFact& fact) { return fact.option == option; });
  if (!known) run.facts.push_back({std::string(option), std::move(text), origin});
}

}  // namespace twin
