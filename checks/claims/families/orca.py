"""Orca against FasterTransformer: 36.9x throughput at equal latency (Yu et al., OSDI 2022)."""
from claim import Claim, Quantity
from lengths import ORCA, fixed
from simulator import Word, experiment

BOUNDS = (1.5, 2, 4, 8)  # times the latency of a request alone
SLOTS = "number of Orca's slots, FasterTransformer's version and step times"
QUANTITIES = (
    Quantity("ratio_2", "Orca / FT, req/s at twice the unloaded latency", "36.9", "R", (10, 40),
             "scheduling, memory", SLOTS),
    Quantity("ratio_2_slots", "the same, Orca with as many slots as FT, 8", "-", "D", (3, 15),
             "scheduling", SLOTS),
    Quantity("ratio_8", "the same with 32 slots, at four times that bound", "single digits", "D",
             (1, 9.99), "scheduling, memory", SLOTS),
    Quantity("ratio_equal_8", "the same with equal requests (272 in, 64 out)", "gap shrinks", "D",
             (1, 3), "scheduling, memory", "FasterTransformer's micro-batches: here one static "
             "batch is in the pipeline"),
)
# 16 A100-40GB hold 350 GB of weights; the rest is left to the rule of vLLM V0, as the slot number
# is not published.
SYSTEM = {"model": "gpt-3-175b", "hardware": "a100-40gb", "tensor_parallel": 8,
          "pipeline_parallel": 2, "memory": {"rule": Word("vllm_v0"), "max_step_tokens": 4096}}
POLICIES = {"orca": {"orca": {"n_workers": 2, "max_bs": 32}},
            "orca_8": {"orca": {"n_workers": 2, "max_bs": 4}},
            "ft_8": {"static": {"max_batch_size": 8}}, "ft_1": {"static": {"max_batch_size": 1}}}


def text_of(policy, shape, arrivals):
    return experiment(workload={"requests": 2000, "arrivals": arrivals, "shape": shape},
                      policy=POLICIES[policy], system=SYSTEM, cost={"roofline": {}})


def unloaded_ms(simulator, name, shape):
    """Median latency per token where no request meets another one."""
    text = text_of("ft_1", shape, {"kind": Word("constant"), "rate": 0.01})
    return simulator.sweep(f"orca/{name}_alone", {"ft_1": text})[0]["p50_normalized_ms_per_token"]


def rates(simulator, name, shape, bounds):
    """By bound: the best rates of Orca and of FasterTransformer, over its two batch sizes."""
    alone = unloaded_ms(simulator, name, shape)
    rows = []
    for bound in bounds:
        best = {}
        for policy in POLICIES:
            text = text_of(policy, shape, {"kind": Word("poisson"), "rate": 1})
            best[policy] = simulator.capacity(
                f"orca/{name}_{policy}_{bound}", text,
                f"p50_normalized_ms_per_token<={bound * alone:.3f}", (0.02, 60)) or 0
        rows.append({"bound": bound, "ms_per_token": bound * alone, "orca": best["orca"],
                     "orca_8": best["orca_8"], "ft": max(best["ft_8"], best["ft_1"]),
                     "ft_batch_1": best["ft_1"],
                     "ft_batch_8": best["ft_8"]})
    return rows


def find(simulator):
    mixed = rates(simulator, "mixed", ORCA, BOUNDS)
    equal = rates(simulator, "equal", {"prompt": fixed(272), "output": fixed(64)}, (8,))
    simulator.write_curve("orca", mixed)
    ratio = {row["bound"]: row["orca"] / row["ft"] if row["ft"] else float("inf") for row in mixed}
    two = next(row for row in mixed if row["bound"] == 2)
    return {"ratio_2": ratio[2], "ratio_2_slots": two["orca_8"] / two["ft"], "ratio_8": ratio[8],
            "ratio_equal_8": equal[0]["orca"] / equal[0]["ft"]}


CLAIMS = [Claim(
    "orca", "Orca: 36.9x throughput at equal latency", "Yu et al., OSDI 2022, section 6.2",
    "GPT-3 175B, TP8 x PP2 on A100-40GB, 32-512 in, 1-128 out, Poisson; Orca of 32 slots against "
    "padded static batches of 8 and of 1, the better one at each bound; median latency per token; "
    "one roofline cost model", QUANTITIES, find,
    needs="static batches with micro-batches in the pipeline (FasterTransformer)")]
