"""DeepSpeed-FastGen: 2.3x effective throughput, 2x rate, 3.7x lower tail latency of tokens (blog of
November 2023)."""
import json

from claim import Claim, Quantity
from formulas import moving_average_at_least
from lengths import fastgen
from simulator import Word, experiment

CLIENTS = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32)
CONSTANTS = (0.05, 0.1, 0.2, 0.5)
HOST = "vLLM 0.2's host time per step, which is left out here"
QUANTITIES = (
    Quantity("tail", "P95 time between tokens, 16 clients, 2600/128: vLLM / FastGen", "3.7", "R",
             (2, 5), "scheduling", "FastGen's token budget, vLLM's flags"),
    Quantity("median", "P50 of the same", "1", "R", (0.8, 1.25), "scheduling",
             "FastGen's token budget"),
    Quantity("rate", "1200/128: largest req/s with a mean latency of at most 9 s, FastGen / vLLM, "
             "equal kernels", "2.0", "R", (1.1, 1.4), "scheduling", HOST),
    Quantity("effective", "2600/60, 4 tok/s: effective throughput at the best number of clients, "
             "moving average constant 0.1", "2.25", "R", (1.5, 2.5), "scheduling",
             "vLLM 0.2's step times; the constant (0.05 to 0.5) changes little"),
)
POLICIES = {"vllm": {"vllm_v0": {"max_num_batched_tokens": 4096}}, "fastgen": {"splitfuse": {}}}
METRICS = ("clients", "policy", "request_throughput", "mean_e2el_ms", "p50_itl_ms", "p95_itl_ms")


def text_of(policy, prompt, output, clients, requests=512, record=False):
    return experiment(
        workload={"requests": requests, "shape": fastgen(prompt, output),
                  "arrivals": {"kind": Word("closed_loop"), "users": clients}},
        policy=POLICIES[policy],
        system={"model": "llama-2-70b", "hardware": "a100-80gb-sxm", "tensor_parallel": 4,
                "memory": {"rule": Word("vllm_v0"), "max_step_tokens": 4096}},
        cost={"roofline": {}}, outputs={"record": record})


def over_clients(simulator, prompt, output):
    """A row per policy and number of clients."""
    rows = simulator.sweep(f"fastgen/{prompt}_{output}",
                           {policy: text_of(policy, prompt, output, 1) for policy in POLICIES},
                           [("workload.arrivals.users", CLIENTS)], replications=3)
    return [{"clients": int(row["workload.arrivals.users"]), "policy": row["base"],
             **{name: row[name] for name in METRICS[2:]}} for row in rows]


def rate_at(rows, policy, latency_ms):
    """Completed req/s where the latency crosses the bound, by linear interpolation."""
    mine = sorted((row["mean_e2el_ms"], row["request_throughput"]) for row in rows
                  if row["policy"] == policy)
    for (low, slow), (high, fast) in zip(mine, mine[1:]):
        if low <= latency_ms <= high:
            return slow + (fast - slow) * (latency_ms - low) / (high - low)
    return mine[-1][1]


def effective(simulator, policy, clients, constant, speed=4):
    """Requests per second whose prompt is read at 512 tokens/s and whose tokens keep the speed."""
    summary, folder = simulator.run(f"fastgen/tokens_{policy}_{clients}",
                                    text_of(policy, 2600, 60, clients, 256, record=True),
                                    more=("--export", "vllm-detailed"))
    bench = json.loads((folder / "vllm_bench.json").read_text())
    good = sum(ttft <= prompt / 512 and moving_average_at_least(gaps, constant, speed)
               for ttft, prompt, gaps in zip(bench["ttfts"], bench["input_lens"], bench["itls"]))
    return good / summary["duration_seconds"]


def find(simulator):
    long = {(row["policy"], row["clients"]): row for row in over_clients(simulator, 2600, 128)}
    short = over_clients(simulator, 1200, 128)
    best = [{"constant": constant,
             **{policy: max(effective(simulator, policy, clients, constant)
                            for clients in (8, 16, 24, 32)) for policy in POLICIES}}
            for constant in CONSTANTS]
    simulator.write_curve("fastgen", short)
    simulator.write_curve("fastgen_effective", best)
    at = next(row for row in best if row["constant"] == 0.1)
    return {"tail": long["vllm", 16]["p95_itl_ms"] / long["fastgen", 16]["p95_itl_ms"],
            "median": long["vllm", 16]["p50_itl_ms"] / long["fastgen", 16]["p50_itl_ms"],
            "rate": rate_at(short, "fastgen", 9000) / rate_at(short, "vllm", 9000),
            "effective": at["fastgen"] / at["vllm"] if at["vllm"] else float("inf")}


CLAIMS = [Claim(
    "fastgen", "DeepSpeed-FastGen: 2.3x, 2x, 3.7x", "DeepSpeed blog, November 2023",
    "Llama-2-70B, TP4 A100-80GB, closed loop of 1-32 clients, 512 requests, fastgen lengths "
    "(normal, "
    "deviation 0.3 of the mean); SplitFuse with 768 tokens against vLLM V0; one roofline cost "
    "model, no host time", QUANTITIES, find)]
