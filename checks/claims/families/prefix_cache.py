"""SGLang's RadixAttention: what a prefix cache alone can gain (Zheng et al., NeurIPS 2024)."""
from claim import Claim, Quantity
from families.fairness import A10G
from lengths import fixed
from simulator import Word, experiment

PROGRAM = "the programs' lengths; here all requests share one prefix, stored once"
QUANTITIES = (
    Quantity("hits", "1,800 of 2,000 prompt tokens shared: share of prompt tokens from the cache",
             "0.5-0.99", "R", (0.85, 0.9), "memory", PROGRAM),
    Quantity("gain", "output of 10 tokens: req/s with the cache over without", "up to 6.4", "R",
             (2, 6.4), "memory", PROGRAM),
    Quantity("bound", "that gain over 1 / (1 - hits x prefill's share of the time)", "at most 1",
             "D", (0.7, 1.02), "arithmetic, memory", "the formula leaves out that a shared prefix "
             "is stored once, so that more run"),
    # Added after the first run: the cache holds 7 requests of 2,010 tokens without sharing.
    Quantity("bound_capped", "the same with at most 7 requests at a time on both sides",
             "at most 1", "D", (0.7, 1.02), "arithmetic"),
    Quantity("long_outputs", "the gain with outputs of 384 tokens (256-512 in the paper)",
             "almost none", "R", (1.0, 1.3), "memory", "the paper's chats share no prefix with "
             "each other; here all share one"),
)


def rows_of(simulator, output, requests_max=128):
    """Runs with and without the cache, and the prefills alone."""
    def text(tokens, caching):
        return experiment(
            workload={"requests": 400, "arrivals": {"kind": Word("all_at_once")},
                      "shape": {"prompt": fixed(200), "output": fixed(tokens),
                                "shared_prefix": {"prompts": 1, "tokens": 1800}}},
            policy={"vllm_v1": {"enable_prefix_caching": caching, "max_num_seqs": requests_max}},
            system={"model": "llama-2-7b", "hardware": "l4", "hardware_spec": A10G,
                    "memory": {"blocks_override": 1000}}, cost={"roofline": {}})
    rows = simulator.sweep(f"prefix_cache/{output}_{requests_max}", {
        "cached": text(output, True), "plain": text(output, False), "prefills": text(1, False)})
    return {row["base"]: row for row in rows}


def gain(rows):
    return rows["cached"]["request_throughput"] / rows["plain"]["request_throughput"]


def gain_over_bound(rows):
    share = rows["plain"]["request_throughput"] / rows["prefills"]["request_throughput"]
    return gain(rows) * (1 - rows["cached"]["prefix_hit_share"] * share)


def find(simulator):
    short, capped = rows_of(simulator, 10), rows_of(simulator, 10, 7)
    return {"hits": short["cached"]["prefix_hit_share"], "gain": gain(short),
            "bound": gain_over_bound(short), "bound_capped": gain_over_bound(capped),
            "long_outputs": gain(rows_of(simulator, 384))}


CLAIMS = [Claim("sglang", "SGLang: up to 6.4x by RadixAttention", "Zheng et al., NeurIPS 2024",
                "the cache alone: Llama-2-7B on an A10G, 16,000 tokens of cache, 400 requests at "
                "once with one shared prefix; vLLM V1 with and without prefix caching; roofline",
                QUANTITIES, find, quick=True,
                needs="sglang (longest prefix first), programs of dependent calls")]
