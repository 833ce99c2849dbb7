"""vLLM: 2-4x Orca's rate, up to 22x FasterTransformer's; and memory before and after paging
(Kwon et al., SOSP 2023)."""
import bisect

import buddy
from claim import Claim, Quantity
from lengths import (ALPACA_VLLM, PROBABILITIES, SHAREGPT_VLLM, SHAREGPT_VLLM_OUTPUT,
                     SHAREGPT_VLLM_PROMPT)
from simulator import Word, experiment, read_rows

SLOTS = 15700  # OPT-13B on an A100-40GB
BOUNDS_MS = (60, 100, 200, 400)
COMMIT = "vLLM's early commit, the length distribution beyond its mean"
NO_BUDDY = "the external fragmentation of the authors' buddy allocator (claim vllm_memory)"
RATES = (
    Quantity("sharegpt_oracle", "OPT-13B, ShareGPT, req/s at 200 ms a token: vLLM / Orca-Oracle",
             "1.7", "S", (1.7, 2.7), "memory", NO_BUDDY),
    # Added after the first run: the share is the published one (Fig. 2: 38.2 + 25.2 %).
    Quantity("sharegpt_oracle_buddy", "the same, Oracle with the 63.4 % of the slots that the "
             "authors' buddy allocator left", "1.7", "S", (1.7, 2.7), "memory", COMMIT),
    Quantity("sharegpt_max", "OPT-13B, ShareGPT, 200 ms a token: vLLM / Orca-Max", "3.8", "S",
             (2.7, 8), "memory", COMMIT),
    Quantity("sharegpt_ft", "the same: vLLM / FasterTransformer", "6.3", "S", (5, 22),
             "memory, scheduling", COMMIT),
    Quantity("large_alpaca_oracle", "OPT-175B, 8 A100-80GB, Alpaca: vLLM / Orca-Oracle", "1.1", "S",
             (1.0, 1.4), "memory, scheduling", "whether the authors' Orca mixes prefills and "
             "decodes, as here: vLLM's separate prefill steps stop all decodes"),
    # Added after the first run: separates memory from the order of prefills.
    Quantity("large_alpaca_mixed", "the same, vLLM with mixed steps (chunked prefill)", "1.1", "S",
             (1.0, 1.4), "memory", COMMIT),
    Quantity("batched", "requests that run at once, OPT-13B, ShareGPT at 2 req/s", "30.42", "R",
             (27, 34), "memory", "the step times: 2 req/s is near the knee, where the batch grows"),
)
POINTS = "5 points as in claims.md; the load is not published"
MEMORY = (
    Quantity("max_states", "Orca-Max: share of the cache that holds tokens, %", "20.4", "R",
             (15.4, 25.4), "memory", POINTS),
    Quantity("max_internal", "Orca-Max: taken but never used, %", "57.3", "R", (52.3, 62.3),
             "memory", POINTS),
    Quantity("oracle_states", "Orca-Oracle: share that holds tokens, %", "38.2", "R", (33.2, 43.2),
             "memory", POINTS),
    Quantity("oracle_external", "Orca-Oracle: lost by the allocator, %", "36.6", "R", (31.6, 41.6),
             "memory", POINTS),
    Quantity("max_batch", "Orca-Max: requests that run at once", "7.00", "R", (6.9, 7.0), "memory"),
    Quantity("pow2_batch", "Orca-Pow2: the same", "9.81", "R", (8.3, 11.3), "memory", POINTS),
    Quantity("oracle_batch", "Orca-Oracle: the same", "13.62", "R", (11.6, 15.7), "memory", POINTS),
    Quantity("paged_states", "vLLM: share of the held blocks that holds tokens, %", "96.3", "R",
             (94, 100), "memory"),
)


def system(model, hardware, slots, tensor=1):
    return {"model": model, "hardware": hardware, "tensor_parallel": tensor,
            "memory": {"block_size": 16, "blocks_override": slots // 16}}


SYSTEMS = {"13b": system("opt-13b", "a100-40gb", SLOTS),
           "13b_buddy": system("opt-13b", "a100-40gb", int(0.634 * SLOTS)),
           "175b": system("opt-175b", "a100-80gb-sxm", 60100, 8)}
POLICIES = {
    "vllm": {"vllm_v0": {"max_num_batched_tokens": 2560}},
    "mixed": {"vllm_v0": {"max_num_batched_tokens": 2560, "enable_chunked_prefill": True}},
    "oracle": {"orca": {"reservation": Word("request"), "max_bs": 256}},
    "max": {"orca": {"reservation": Word("model"), "max_model_len": 2048, "max_bs": 256}},
    "ft": {"static": {"max_batch_size": SLOTS // 2048}},
}


def text_of(policy, size, shape, rate, outputs=None, requests=1000):
    return experiment(
        workload={"requests": requests, "arrivals": {"kind": Word("poisson"), "rate": rate},
                  "shape": shape},
        policy=POLICIES[policy], system=SYSTEMS[size], cost={"roofline": {}}, outputs=outputs or {})


def capacity(simulator, policy, size, shape, name, bound_ms, top):
    return simulator.capacity(f"vllm/{name}_{size}_{policy}_{bound_ms}",
                              text_of(policy, size, shape, 1),
                              f"mean_normalized_ms_per_token<={bound_ms}", (0.02, top),
                              tolerance=0.02) or 0


def find_rates(simulator):
    curve = []
    for bound in BOUNDS_MS:
        rate = {policy: capacity(simulator, policy, "13b", SHAREGPT_VLLM, "sharegpt", bound, 60)
                for policy in ("vllm", "oracle", "max", "ft")}
        curve.append({"ms_per_token": bound, **rate})
    simulator.write_curve("vllm", curve)
    at = next(row for row in curve if row["ms_per_token"] == 200)
    buddy_rate = capacity(simulator, "oracle", "13b_buddy", SHAREGPT_VLLM, "sharegpt", 200, 60)
    large = {policy: capacity(simulator, policy, "175b", ALPACA_VLLM, "alpaca", 200, 200)
             for policy in ("vllm", "mixed", "oracle")}
    steady = simulator.sweep("vllm/batched", {"vllm": text_of("vllm", "13b", SHAREGPT_VLLM, 2)},
                             replications=5)
    return {"sharegpt_oracle": at["vllm"] / at["oracle"],
            "sharegpt_oracle_buddy": at["vllm"] / buddy_rate,
            "sharegpt_max": at["vllm"] / at["max"], "sharegpt_ft": at["vllm"] / at["ft"],
            "large_alpaca_oracle": large["vllm"] / large["oracle"],
            "large_alpaca_mixed": large["mixed"] / large["oracle"],
            "batched": steady[0]["mean_running"]}


def sharegpt_lengths(source):
    """A prompt and an output length of the stand-in, by inverse distribution functions."""
    def draw(values):
        share = source.random()
        at = min(len(PROBABILITIES) - 2, bisect.bisect_right(PROBABILITIES, share) - 1)
        low, high = PROBABILITIES[at], PROBABILITIES[at + 1]
        return max(1, round(values[at] + (share - low) / (high - low)
                            * (values[at + 1] - values[at])))
    return draw(SHAREGPT_VLLM_PROMPT), draw(SHAREGPT_VLLM_OUTPUT)


def find_memory(simulator):
    used = {name: buddy.simulate(SLOTS, reserve, sharegpt_lengths) for name, reserve in
            (("max", buddy.reserved_by_maximum), ("pow2", buddy.reserved_by_power),
             ("oracle", buddy.reserved_by_truth))}
    _, folder = simulator.run("vllm/memory", text_of(
        "vllm", "13b", SHAREGPT_VLLM, 4, {"steps_csv": True}, 500))
    blocks = SLOTS // 16
    # The keys that a decode step reads are the tokens held by the requests that run.
    steps = [row for row in read_rows(folder / "steps.csv")
             if row["prefill_tokens"] == 0 and row["waiting"] > 0]
    held = sum(row["context_tokens"] for row in steps)
    paged = held / sum(16 * (blocks - row["free_blocks"]) for row in steps)
    return {"max_states": 100 * used["max"].states, "max_internal": 100 * used["max"].internal,
            "oracle_states": 100 * used["oracle"].states,
            "oracle_external": 100 * used["oracle"].external, "max_batch": used["max"].running,
            "pow2_batch": used["pow2"].running, "oracle_batch": used["oracle"].running,
            "paged_states": 100 * paged}


SOURCE = "Kwon et al., SOSP 2023, sections 2 and 6"
CLAIMS = [
    Claim("vllm", "vLLM: 2-4x Orca, up to 22x FasterTransformer", SOURCE,
          "OPT-13B with 15.7K slots on an A100-40GB, sharegpt_vllm (quantiles rescaled to the "
          "published means), Poisson; mean latency per token; Orca-Max reserves 2,048, Oracle the "
          "true length, both without buddy allocation; static batch of 7; one roofline cost model",
          RATES, find_rates,
          needs="a buddy allocator under Orca, parallel sampling and beam search (1.3x to 2.3x)"),
    Claim("vllm_memory", "PagedAttention: 20-38 % of the cache used before, 96 % after; \"40 % "
          "better use\"", SOURCE,
          "buddy allocator over 15.7K slots at saturation, sharegpt_vllm; vLLM V0 simulated at 4 "
          "req/s, above its knee", MEMORY, find_memory, quick=True),
]
