"""Continuous batching: 23x the throughput of naive static batching (Anyscale, June 2023)."""
from claim import Claim, Quantity
from lengths import anyscale
from simulator import Word, experiment

STATIC_BATCH = {32: 16, 128: 12, 512: 8, 1536: 4}  # of the benchmark's scripts, by output limit
CACHE_TOKENS = {32: 8700, 128: 7500, 512: 8100, 1536: 8100}
SLOW_KERNELS = 4  # step time of the naive baseline over the weight read: 118 ms against 16.7 (D)
QUANTITIES = (
    Quantity("paged_1536", "limit 1,536, equal kernels: vLLM / static batch of 4, tokens/s",
             "5.8 of 23", "D", (5, 7), "scheduling, memory", "vLLM's early commit"),
    Quantity("paged_32", "limit 32: vLLM / static batch of 16", "about 1", "D", (0.8, 1.3),
             "scheduling, memory", "the static batch of 16 of the scripts leaves half of the cache "
             "unused"),
    Quantity("slow_1536", "limit 1,536, the static side with steps of 4 times the length", "23",
             "R", (18, 30), "kernels, scheduling, memory", "the speed of the baseline's kernels"),
    Quantity("continuous_1536", "limit 1,536: continuous batching with reserved memory of 8,100 "
             "tokens / static", "2 (8x over 4x)", "R", (1.5, 2.5), "scheduling",
             "TGI's own admission: needs the policy tgi"),
)


def text_of(policy, limit, tokens, cost=None):
    return experiment(
        workload={"requests": 1000, "arrivals": {"kind": Word("all_at_once")},
                  "shape": anyscale(limit), "max_output": {"kind": Word("fixed"), "value": limit}},
        policy=policy,
        system={"model": "opt-13b", "hardware": "a100-40gb",
                "memory": {"blocks_override": tokens // 16}}, cost=cost or {"roofline": {}})


def find(simulator):
    curve = []
    for limit, batch in STATIC_BATCH.items():
        rows = simulator.sweep(f"anyscale/{limit}", {
            "static": text_of({"static": {"max_batch_size": batch}}, limit, 15700),
            "orca": text_of({"orca": {"max_bs": 256}}, limit, CACHE_TOKENS[limit]),
            "vllm": text_of({"vllm_v0": {"max_num_batched_tokens": 2560}}, limit, 15700),
        }, replications=3)
        curve.append({"limit": limit, **{row["base"]: row["total_token_throughput"]
                                         for row in rows}})
    simulator.write_curve("anyscale", curve)
    at = {row["limit"]: row for row in curve}
    paged = at[1536]["vllm"] / at[1536]["static"]
    return {"paged_1536": paged, "paged_32": at[32]["vllm"] / at[32]["static"],
            "slow_1536": SLOW_KERNELS * paged,
            "continuous_1536": at[1536]["orca"] / at[1536]["static"]}


CLAIMS = [Claim(
    "anyscale", "Continuous batching: 23x, 8x, 4x", "Anyscale blog, June 2023, and its scripts",
    "OPT-13B, A100-40GB, 1,000 requests at once, anyscale lengths (exact); static batches of "
    "16/12/8/4; vLLM V0 with 15.7K slots, Orca with the scripts' 8,100-8,700 tokens; tokens/s "
    "count prompts; one roofline cost model", QUANTITIES, find, quick=True,
    needs="tgi (its admission by waiting_served_ratio)")]
