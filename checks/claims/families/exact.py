"""Numbers of the papers that follow from arithmetic: they must be met exactly."""
from claim import Claim, Quantity
from formulas import harmonic, kv_bytes_per_token, speculation_gain, tiles, waves
from lengths import SHAREGPT_VLLM, exponential_below_mean
from simulator import Word, experiment


def equal(key, what, value, digits=0, factor="arithmetic"):
    half = 0.5 * 10 ** -digits
    return Quantity(key, what, f"{value:.{digits}f}", "D", (value - half, value + half), factor)


EXACT = (
    equal("orca_max_batch", "requests that run at once, Orca-Max, 15.7K slots of 2,048", 7,
          factor="memory"),
    equal("anyscale_32", "mean output, exponential of mean 128 drawn again above 32", 15.3, 1),
    equal("anyscale_128", "the same, above 128", 53.5, 1),
    equal("anyscale_512", "the same, above 512", 118.4, 1),
    equal("anyscale_1536", "the same, above 1,536", 128.0, 1),
    equal("slots_4", "slot use of a static batch of 4 exponential outputs, 1/H_4", 0.48, 2),
    equal("slots_8", "the same, 8", 0.37, 2),
    equal("slots_16", "the same, 16", 0.30, 2),
    equal("speculation_small", "gain at acceptance .75, 7 drafts, cost .02", 3.16, 2),
    equal("speculation_large", "gain at acceptance .82, 7 drafts, cost .11", 2.50, 2),
    equal("tiles", "tiles of 256 x 128 in 2304 x 1536", 108),
    equal("waves_past", "waves on 108 processors at 2304 x 1537", 2),
    equal("cache_opt_13b", "cache kB a token, OPT-13B", 819.2, 1, "memory"),
    equal("cache_7b", "the same, Llama-2-7B", 524.3, 1, "memory"),
    equal("cache_70b", "the same, Llama-2-70B with grouped heads", 327.7, 1, "memory"),
    equal("cache_70b_ungrouped", "the same by the usual formula, all 64 heads", 2621.4, 1,
          "memory"),
    equal("cache_7b_4096", "cache of Llama-2-7B at 4,096 tokens, GiB", 2.00, 2, "memory"),
    equal("scores_4096", "scores of one layer that attention without FlashAttention stores, prompt "
          "of 4,096 tokens, 32 heads, GiB", 1.00, 2, "memory"),
)


def orca_max_batch(simulator):
    """Max reserves 2,048 tokens a request, whatever it needs."""
    text = experiment(
        workload={"requests": 100, "arrivals": {"kind": Word("all_at_once")},
                  "shape": SHAREGPT_VLLM},
        policy={"orca": {"reservation": Word("model"), "max_model_len": 2048}},
        system={"model": "opt-13b", "hardware": "a100-40gb",
                "memory": {"blocks_override": 15700 // 16}},
        cost={"constant": {}})
    return simulator.sweep("exact", {"orca_max": text})[0]["max_running"]


def find(simulator):
    cache = simulator.cache_kb_per_token()
    return {
        "orca_max_batch": orca_max_batch(simulator),
        **{f"anyscale_{limit}": exponential_below_mean(128, limit)
           for limit in (32, 128, 512, 1536)},
        **{f"slots_{batch}": 1 / harmonic(batch) for batch in (4, 8, 16)},
        "speculation_small": speculation_gain(0.75, 7, 0.02),
        "speculation_large": speculation_gain(0.82, 7, 0.11),
        "tiles": tiles(2304, 1536), "waves_past": waves(2304, 1537, 108),
        "cache_opt_13b": cache["opt-13b"], "cache_7b": cache["llama-2-7b"],
        "cache_70b": cache["llama-2-70b"],
        "cache_70b_ungrouped": kv_bytes_per_token(80, 64, 128) / 1e3,
        "scores_4096": 32 * 4096 ** 2 * 2 / 2 ** 30,
        "cache_7b_4096": 4096 * 1e3 * cache["llama-2-7b"] / 2 ** 30,
    }


CLAIMS = [Claim("exact", "Arithmetic of the papers",
                "the papers below, FlashAttention (NeurIPS 2022)",
                "no timing: formulae, the list of models, and the admission rule", EXACT, find,
                quick=True)]
