// The meaning of flags of servers, of keys of their files and of columns of tables.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "config/servers/servers.h"
#include "config/servers/settings.h"

namespace twin {
namespace {

using Kind = SettingMeaning::Kind;
using ::testing::HasSubstr;

SettingMeaning Meaning(std::string_view family, std::string_view policy, std::string_view name,
                       std::string_view text) {
  const auto setting = FindSetting(family, name);
  EXPECT_TRUE(setting.has_value()) << name;
  return setting ? MeaningOf(*setting, policy, text) : SettingMeaning{Kind::kWrong, {}, {}, {}};
}

std::string Change(std::string_view family, std::string_view policy, std::string_view name,
                   std::string_view text) {
  const SettingMeaning meaning = Meaning(family, policy, name, text);
  return meaning.kind == Kind::kSet ? meaning.field + "=" + meaning.value : meaning.what;
}

TEST(ServerSettingsTest, EveryFieldIsOneOfAPolicyOfTheServer) {
  for (const Server* const server : Servers()) {
    for (const ServerSetting& setting : SettingsOf(server->family)) {
      if (setting.effect != SettingEffect::kField) continue;
      bool known = false;
      for (const ServerPreset& preset : server->presets) {
        known |= !FieldOf(setting, preset.policy).empty();
      }
      EXPECT_TRUE(known) << server->family << " " << setting.flag << " " << setting.field;
    }
  }
}

TEST(ServerSettingsTest, ANameMeansOneSetting) {
  for (const Server* const server : Servers()) {
    std::set<Setting> known;
    for (const ServerSetting& setting : SettingsOf(server->family)) {
      std::vector<std::string> names = setting.names;
      names.push_back(setting.flag);
      for (const std::string& name : names) {
        const auto found = FindSetting(server->family, name);
        ASSERT_TRUE(found.has_value()) << name;
        EXPECT_EQ(found->row->flag, setting.flag) << server->family << " " << name;
      }
      // Several flags describe the drafts, the positions, and the ranks of attention.
      constexpr Setting kOfSeveralFlags[] = {Setting::kOther, Setting::kSpeculation,
                                             Setting::kPositions, Setting::kAttentionRanks};
      if (std::ranges::find(kOfSeveralFlags, setting.setting) == std::end(kOfSeveralFlags)) {
        EXPECT_TRUE(known.insert(setting.setting).second) << setting.flag;
      }
    }
    EXPECT_FALSE(server->title.empty());
  }
}

TEST(ServerSettingsTest, ARefusalSaysWhatItMakes) {
  for (const Server* const server : Servers()) {
    for (const ServerSetting& setting : SettingsOf(server->family)) {
      if (setting.effect != SettingEffect::kRefused) continue;
      EXPECT_NE(setting.why, "") << setting.flag;
    }
  }
}

// Each launch command needs them.
TEST(ServerSettingsTest, AServerHasAFlagForItsRanksItsMemoryAndItsLongestRequest) {
  for (const Server* const server : Servers()) {
    for (const Setting setting :
         {Setting::kTensorParallel, Setting::kMemoryShare, Setting::kMaxModelLen,
          Setting::kTokenBudget, Setting::kMaxNumSeqs}) {
      EXPECT_NE(FindSetting(server->family, setting), nullptr)
          << server->family << " " << SettingWord(setting);
    }
  }
}

TEST(ServerSettingsTest, CapitalsDashesAndUnderscoresDoNotCount) {
  for (const char* const name : {"--max-num-seqs", "max_num_seqs", "MAX-NUM-SEQS", "max_seqs"}) {
    EXPECT_EQ(Change("vllm", "vllm_v1", name, "4"), "policy.vllm_v1.max_num_seqs=4") << name;
  }
  EXPECT_FALSE(FindSetting("vllm", "max-num-seq").has_value());
}

// vLLM's human_readable_int: 4k is 4,000 and 4K is 4,096.
TEST(ServerSettingsTest, NumbersMayEndInALetter) {
  const auto budget = [](std::string_view text) {
    return Change("vllm", "vllm_v1", "--max-num-batched-tokens", text);
  };
  EXPECT_EQ(budget("8k"), "policy.vllm_v1.max_num_batched_tokens=8000");
  EXPECT_EQ(budget("8K"), "policy.vllm_v1.max_num_batched_tokens=8192");
  EXPECT_EQ(budget("1.5k"), "policy.vllm_v1.max_num_batched_tokens=1500");
  EXPECT_THAT(budget("0"), HasSubstr("allowed: a whole number from 1 on"));
  EXPECT_THAT(budget("-1"), HasSubstr("is -1"));
  EXPECT_THAT(budget("9999999999"), HasSubstr("allowed"));
  EXPECT_EQ(Change("vllm", "vllm_v1", "--kv-cache-memory-bytes", "25G"),
            "system.memory.kv_bytes_override=26843545600");
}

TEST(ServerSettingsTest, WordsOfTheServerLeaveItTheChoice) {
  for (const char* const open : {"auto", "-1"}) {
    EXPECT_EQ(Meaning("vllm", "vllm_v1", "--max-model-len", open).kind, Kind::kNothing) << open;
  }
  EXPECT_EQ(Meaning("vllm", "vllm_v1", "--kv-cache-dtype", "auto").kind, Kind::kNothing);
  EXPECT_EQ(Change("sglang", "sglang", "--chunked-prefill-size", "-1"),
            "policy.sglang.chunked_prefill_size=-1");
}

// Launchers write auto for settings whose servers have no such word, too.
TEST(ServerSettingsTest, AutoAndNoneLeaveASettingToTheServer) {
  for (const char* const open : {"auto", "None", "null"}) {
    EXPECT_EQ(Meaning("vllm", "vllm_v1", "--max-num-seqs", open).kind, Kind::kNothing) << open;
    EXPECT_EQ(Meaning("sglang", "sglang", "--mem-fraction-static", open).kind, Kind::kNothing);
  }
  EXPECT_EQ(Meaning("sglang", "sglang", "--schedule-policy", "auto").kind, Kind::kNothing);
  EXPECT_EQ(Meaning("sglang", "sglang", "--radix-cache-backend", "auto").kind, Kind::kRefused);
  for (const char* const own :
       {"--disable-radix-cache", "--tp-size", "--dp-size", "--model-path"}) {
    EXPECT_EQ(Meaning("sglang", "sglang", own, "auto").kind, Kind::kWrong) << own;
  }
}

TEST(ServerSettingsTest, SglangsLimitOfItsCacheIsThatOfTheMemoryRule) {
  EXPECT_EQ(Change("sglang", "sglang", "--max-total-tokens", "64k"),
            "system.memory.max_cache_tokens=64000");
}

TEST(ServerSettingsTest, ASwitchIsOnWithoutAValueAndOffUnderItsOppositeName) {
  EXPECT_EQ(Change("vllm", "vllm_v1", "--enable-prefix-caching", ""),
            "policy.vllm_v1.enable_prefix_caching=true");
  EXPECT_EQ(Change("vllm", "vllm_v1", "--no-enable-prefix-caching", ""),
            "policy.vllm_v1.enable_prefix_caching=false");
  EXPECT_EQ(Change("vllm", "vllm_v1", "no_async_scheduling", "true"),
            "policy.vllm_v1.async_scheduling=false");
  EXPECT_EQ(Change("sglang", "sglang", "--disable-radix-cache", ""),
            "policy.sglang.radix_cache=false");
  EXPECT_EQ(Meaning("sglang", "sglang", "disable_decode_cuda_graph", "false").kind, Kind::kNothing);
  EXPECT_THAT(Change("sglang", "sglang", "disable_radix_cache", "maybe"),
              HasSubstr("allowed: true, false"));
}

TEST(ServerSettingsTest, FormatsAndKernelsHaveTheServersWords) {
  EXPECT_EQ(Change("vllm", "vllm_v1", "kv_cache_dtype", "fp8_e5m2"),
            "system.model_shape.kv_dtype=fp8");
  EXPECT_EQ(Change("vllm", "vllm_v1", "cache_dtype", "fp8_e4m3"),
            "system.model_shape.kv_dtype=fp8");
  EXPECT_EQ(
      Change("vllm", "vllm_v1", "--quantization", "awq"),
      "is awq; allowed: auto, fp8, int8, bf16, bfloat16, fp16, float16, half, or a model whose "
      "config.json names the format (awq, gptq)");
  EXPECT_EQ(Change("trtllm", "trtllm", "moe_config.backend", "DEEPGEMM"),
            "cost.profile.experts_kernel=deepgemm");
  EXPECT_EQ(Change("sglang", "sglang", "moe_runner_backend", "flashinfer_mxfp4"),
            "cost.profile.experts_kernel=any");
  EXPECT_EQ(Change("vllm", "vllm_v1", "--spec-method", "deepseek_mtp"), "speculation.method=mtp");
  EXPECT_THAT(Change("vllm", "vllm_v1", "--spec-method", "suffix"),
              HasSubstr("is suffix; allowed: ngram, eagle, "));
  EXPECT_EQ(Change("vllm", "vllm_v1", "cuda_graph_sizes", "[1, 2, 512]"),
            "cost.profile.captured_size_max=512");
}

TEST(ServerSettingsTest, AWordOfAPolicyIsReadInAnyCase) {
  EXPECT_EQ(Change("sglang", "sglang", "--schedule-policy", "LPM"),
            "policy.sglang.schedule_policy=lpm");
  EXPECT_THAT(Change("sglang", "sglang", "--schedule-policy", "random"),
              HasSubstr("is random; allowed: fcfs, lpm, lof"));
  EXPECT_EQ(Change("vllm", "vllm_v0", "--scheduling-policy", "priority"),
            "policy.vllm_v0.policy=priority");
}

TEST(ServerSettingsTest, AnotherDeploymentIsRefusedUnlessItsFlagIsOff) {
  const SettingMeaning attention = Meaning("sglang", "sglang", "--enable-dp-attention", "");
  EXPECT_EQ(attention.kind, Kind::kRefused);
  EXPECT_THAT(attention.what, HasSubstr("data parallelism of attention"));
  EXPECT_EQ(Meaning("sglang", "sglang", "enable_dp_attention", "False").kind, Kind::kNothing);
  EXPECT_EQ(Meaning("vllm", "vllm_v1", "--decode-context-parallel-size", "2").kind, Kind::kRefused);
  EXPECT_EQ(Meaning("vllm", "vllm_v1", "--decode-context-parallel-size", "1").kind, Kind::kNothing);
}

TEST(ServerSettingsTest, ASettingThatThePolicyLacksIsNotSimulated) {
  EXPECT_EQ(Meaning("vllm", "vllm_v1", "--preemption-mode", "swap").kind, Kind::kIgnored);
  EXPECT_EQ(Change("vllm", "vllm_v0", "--preemption-mode", "swap"),
            "policy.vllm_v0.preemption_mode=swap");
  EXPECT_EQ(Meaning("tgi", "tgi_v3", "--max-batch-size", "4").kind, Kind::kIgnored);
  EXPECT_EQ(Meaning("vllm", "vllm_v1", "--swap-space", "4").kind, Kind::kIgnored);
}

TEST(ServerSettingsTest, AFlagThatChangesNoTimeHasNoEffectWhateverItsValue) {
  EXPECT_EQ(Meaning("vllm", "vllm_v1", "--disable-log-requests", "").kind, Kind::kNoEffect);
  EXPECT_EQ(Meaning("vllm", "vllm_v1", "--port", "8000").kind, Kind::kNoEffect);
  EXPECT_EQ(Meaning("sglang", "sglang", "--host", "x").kind, Kind::kNoEffect);
}

TEST(ServerSettingsPageTest, TheCommittedPageIsCurrent) {
  std::ifstream in(std::string(TWIN_SOURCE_DIR) + "/docs/server-settings.md");
  std::ostringstream committed;
  committed << in.rdbuf();
  EXPECT_TRUE(committed.str() == ServerSettingsPage())
      << "run: twinserve doctor --list server-settings > docs/server-settings.md";
}

}  // namespace
}  // namespace twin
