"""SGLang's RadixAttention: what a prefix cache alone can gain (Zheng et al., NeurIPS 2024)."""
from claim import Claim, Quantity
from families.fairness import A10G
from lengths import fixed
from simulator import Word, experiment

PROGRAM = "the programs' lengths; parallel calls and the state machine are part of the published gain"
QUANTITIES = (
    Quantity("hits", "1,800 of 2,000 prompt tokens shared: share of prompt tokens from the cache",
             "0.5-0.99", "R", (0.85, 0.9), "memory", PROGRAM),
    Quantity("gain", "output of 10 tokens: req/s with the cache over without", "up to 6.4", "R",
             (2, 6.4), "memory", PROGRAM),
    Quantity("bound", "that gain over 1 / (1 - hits x prefill's share of the time)", "at most 1", "D",
             (0.7, 1.02), "arithmetic"),
    Quantity("long_outputs", "the gain with outputs of 384 tokens (256-512 in the paper)",
             "almost none", "R", (1.0, 1.3), "memory", "batch size of the multi-turn chat"),
)


def rows_of(simulator, output):
    """Runs with and without the cache, and the prefills alone."""
    def text(tokens, caching):
        return experiment(
            workload={"requests": 400, "arrivals": {"kind": Word("all_at_once")},
                      "shape": {"prompt": fixed(200), "output": fixed(tokens),
                                "shared_prefix": {"prompts": 1, "tokens": 1800}}},
            policy={"vllm_v1": {"enable_prefix_caching": caching}},
            system={"model": "llama-2-7b", "hardware": "l4", "hardware_spec": A10G,
                    "memory": {"blocks_override": 1000}}, cost={"roofline": {}})
    rows = simulator.sweep(f"prefix_cache/{output}", {
        "cached": text(output, True), "plain": text(output, False), "prefills": text(1, False)})
    return {row["base"]: row for row in rows}


def find(simulator):
    short, long = rows_of(simulator, 10), rows_of(simulator, 384)
    def gain(rows):
        return rows["cached"]["request_throughput"] / rows["plain"]["request_throughput"]
    hits = short["cached"]["prefix_hit_share"]
    share = short["plain"]["request_throughput"] / short["prefills"]["request_throughput"]
    return {"hits": hits, "gain": gain(short), "bound": gain(short) * (1 - hits * share),
            "long_outputs": gain(long)}


CLAIMS = [Claim("sglang", "SGLang: up to 6.4x by RadixAttention", "Zheng et al., NeurIPS 2024",
                "the cache alone: Llama-2-7B on an A10G, 16,000 tokens of cache, 400 requests at once "
                "with one shared prefix; vLLM V1 with and without prefix caching; roofline",
                QUANTITIES, find, quick=True,
                needs="sglang (longest prefix first), programs of dependent calls")]
