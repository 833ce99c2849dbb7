"""Attention without padding: 30-50 % less memory, 20-30 % more throughput (no source found)."""
from claim import Claim, Quantity
from lengths import ORCA, SHAREGPT_VLLM, fixed
from simulator import Word, experiment

QUANTITIES = (
    Quantity("memory_uniform", "prompt tokens that are padding, batches of 8, uniform 32-512, %",
             "30-50; 47 (D, towards a batch that reaches 512)", "D", (35, 50), "memory",
             "batch size and lengths"),
    Quantity("memory_sharegpt", "the same, sharegpt_vllm", "far more", "D", (55, 95), "memory",
             "batch size and lengths"),
    Quantity("gain_uniform", "uniform 32-512 in, 1-128 out: req/s of trimmed over padded static "
             "batches of 8", "1.2-1.3", "S", (1.2, 1.3), "scheduling", "batch size and lengths"),
    Quantity("gain_prefill", "the same without outputs: prefills alone", "-", "D", (1.4, 2.0),
             "scheduling", "batch size and lengths"),
)
SYSTEM = {"model": "llama-2-7b", "hardware": "a100-80gb-sxm", "memory": {"blocks_override": 4000}}


def text_of(shape, padded):
    return experiment(
        workload={"requests": 800, "arrivals": {"kind": Word("all_at_once")}, "shape": shape},
        policy={"static": {"max_batch_size": 8, "padded": padded, "max_model_len": 2048}},
        system=SYSTEM, cost={"roofline": {}})


def pair(simulator, name, shape):
    """Padding share of padded batches, and the gain of trimmed ones."""
    rows = {row["base"]: row for row in simulator.sweep(
        f"padding/{name}", {"padded": text_of(shape, True), "trimmed": text_of(shape, False)},
        replications=5)}
    return (100 * rows["padded"]["padding_share"],
            rows["trimmed"]["request_throughput"] / rows["padded"]["request_throughput"])


def find(simulator):
    uniform = pair(simulator, "uniform", {"prompt": ORCA["prompt"], "output": fixed(1)})
    sharegpt = pair(simulator, "sharegpt", {"prompt": SHAREGPT_VLLM["prompt"], "output": fixed(1)})
    whole = pair(simulator, "whole", ORCA)
    return {"memory_uniform": uniform[0], "memory_sharegpt": sharegpt[0], "gain_uniform": whole[1],
            "gain_prefill": uniform[1]}


CLAIMS = [Claim("padding", "Padding-free attention: 30-50 % less memory, 20-30 % more throughput",
                "no source found; claim 12",
                "Llama-2-7B, A100-80GB, static batches of 8, padded and trimmed; roofline",
                QUANTITIES,
                find, quick=True)]
