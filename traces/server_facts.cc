#include <fmt/format.h>

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "core/letter_case.h"
#include "core/printable.h"
#include "traces/benchmark_readers.h"

namespace twin {
namespace {

struct KnownKey {
  std::string_view key;
  std::string_view option;
};

// Names of the options of this program as metadata of vLLM's benchmark, the arguments of SGLang's
// server, and people write them. Capitals, _ and - do not count.
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
                              {"max_total_num_tokens", kFactKvTokens}};

std::string TextOf(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

std::string_view OptionOfKey(std::string_view key) {
  const auto* const found = std::ranges::find_if(
      kKeys, [&](const KnownKey& known) { return EqualsIgnoringSeparators(known.key, key); });
  return found == std::end(kKeys) ? std::string_view() : found->option;
}

void AddFact(std::string_view key, const nlohmann::json& value, const std::string& origin,
             BenchmarkRun& run) {
  if (value.is_null()) return;
  const std::string_view known = OptionOfKey(key);
  std::string option(known.empty() ? key : known);
  std::string text = TextOf(value);
  if (text.empty() || (option == "--replicas" && text == "1")) return;
  // A bare version is the server's whose name the key has.
  const bool version = option == "--server" && text[0] >= '0' && text[0] <= '9';
  if (version && EqualsIgnoringSeparators(key, "vllm_version")) text.insert(0, "vLLM ");
  const auto other = std::ranges::find_if(run.facts, [&](const ServerFact& fact) {
    return EqualsIgnoringSeparators(fact.option, option);
  });
  if (other == run.facts.end()) {
    run.facts.push_back({std::move(option), std::move(text), origin});
  } else if (!EqualsIgnoringCase(other->value, text)) {
    run.notes.push_back(fmt::format("{} is {}, but {} is {}: the latter is taken", origin,
                                    Printable(text), other->origin, Printable(other->value)));
  }
}

}  // namespace twin
