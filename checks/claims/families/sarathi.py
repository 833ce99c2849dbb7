"""Sarathi: piggybacked decodes at a tenth of their cost, 1.33x end to end, 1.91x with pipelines
(Agrawal et al., arXiv 2308.16369)."""
import random

from claim import Claim, Quantity
from lengths import fixed
from simulator import Word, experiment, read_rows

# LLaMA-13B on an A6000, seconds of a step by its tokens. Published (R): 128 tokens 55 ms, 256 69.8,
# 257 92.3; a decode-only batch of 4 at 1K takes 4 x 12.49 ms. Derived (D): chunks of 256 cost at
# most 20 % and of 512 at most 10 % over a whole prompt, hence 1024 tokens 4 x 69.8 / 1.2 ms; a
# decode step without attention is 49.96 ms less 4 x 1024 x 800 KiB at 600 GB/s.
WHOLE_S = 4 * 0.0698 / 1.2
READ_S = 4 * 0.01249 - 4 * 1024 * 819200 / 600e9
A6000 = [(1, READ_S), (64, READ_S), (128, 0.055), (256, 0.0698), (257, 0.0923),
         (512, 1.1 * WHOLE_S / 2), (1024, WHOLE_S), (16384, 16 * WHOLE_S)]
FITTED_COST = {"fitted": {
    "model": "llama-13b", "parameters": 13015864320, "weight_dtype": Word("fp16"),
    "kv_dtype": Word("fp16"), "machine": "A6000, published times", "threads": 0,
    "gemm_layers": [{"at": at, "seconds": round(seconds, 7)} for at, seconds in A6000],
    # The head's and all other work are part of these times.
    "gemm_head": [{"at": 1, "seconds": 0}], "other": [{"at": 1, "seconds": 0}],
    "attention": {"per_decode_context_token_s": 819200 / 600e9}}}
# NVIDIA's data sheet; achieved shares as of the L40S.
A6000_SHEET = {"name": "rtx-a6000", "memory_bytes": 48 * 2 ** 30,
               "memory_bandwidth_bytes_per_s": 768e9, "sm_count": 84, "peak_bf16_flops": 154.8e12}
# Nearest data sheet; only its 48 GB matter, as times come from the table.
A6000_SYSTEM = {"model": "llama-13b", "model_shape": {"max_position": 4096}, "hardware": "l40s",
                "memory": {"rule": Word("sarathi"), "utilization": 0.95, "blocks_override": 1400}}
TIMES = "prefill times of Table 1 between the published chunk sizes"
RATIOS = (4, 6, 8, 10, 12, 14, 15, 16, 18, 20, 24, 28, 36, 50)
STAGES = 8
# Bubbles need the time of each stage. A linear cost model divides a step equally: weights of 5.5 GB
# a stage and rank at 1.48 TB/s, and 2 x 2.7G operations a token at 234 TFLOP/s.
LINEAR = {"base_s": STAGES * 3.7e-3, "per_prefill_token_s": STAGES * 23.3e-6,
          "per_decode_item_s": STAGES * 23.3e-6}
QUANTITIES = (
    Quantity("marginal", "A6000, roofline: decode alone (batch 4) over a decode added to a chunk "
             "of 1021 tokens", "10.4", "R", (2.8, 12), "scheduling", "the A6000's achieved rates"),
    Quantity("gain_1k", "A6000, published step times, 1K, batch 6, P:D 50: throughput over prefill "
             "and decode apart", "1.33", "R", (1.28, 1.38), "scheduling", TIMES),
    Quantity("gain_2k", "the same, 2K", "1.26", "R", (1.21, 1.31), "scheduling", TIMES),
    Quantity("gain_3k", "the same, 3K", "1.22", "R", (1.17, 1.27), "scheduling", TIMES),
    Quantity("best_ratio", "batch 18, chunk 256: P:D of the largest gain, C/(B-1) = 15", "14", "R",
             (11, 20), "scheduling"),
    Quantity("best_gain", "the gain there", "1.27", "R", (1.22, 1.32), "scheduling", TIMES),
    Quantity("gain_33b", "LLaMA-33B on an A100-80GB, roofline, 1K, batch 10, P:D 28", "1.25", "R",
             (1.10, 1.30), "scheduling, kernels", "the A100's achieved rates in the authors' code"),
)
PIPELINE = (
    Quantity("pipeline", "GPT-3 175B, TP8 x PP8 A100-80GB: Sarathi / Orca, req/s", "1.91", "R",
             (1.5, 2.2), "scheduling", "the simulator's step times"),
    Quantity("bubbles_orca", "Orca: share of a stage's time without work, %", "-", "D", (20, 70),
             "scheduling"),
    Quantity("bubbles_ratio", "Orca's idle time a stage over Sarathi's", "6.29 (median bubble)",
             "R", (3, 10), "scheduling", "the median of single bubbles: needs step times by stage"),
)


def workload(prompt, output, count):
    return {"requests": count, "arrivals": {"kind": Word("all_at_once")},
            "shape": {"prompt": fixed(prompt), "output": fixed(output)}}


def gain(simulator, name, length, ratio, batch, chunk, system, cost, count=12):
    """Requests per second of Sarathi over those of prefill-only and decode-only batches.

    length = prompt + output tokens of each request, ratio = prompt / output.
    """
    output = max(2, round(length / (ratio + 1)))
    load = workload(length - output, output, count * batch)
    policies = {"apart": {"static": {"max_batch_size": batch}},
                "sarathi": {"sarathi": {"chunk_size": chunk, "max_num_seqs": batch}}}
    rows = simulator.sweep(f"sarathi/{name}", {
        key: experiment(workload=load, policy=policy, system=system, cost=cost)
        for key, policy in policies.items()})
    rate = {row["base"]: row["request_throughput"] for row in rows}
    return rate["sarathi"] / rate["apart"]


def marginal_cost(simulator):
    """A decode in a batch of 4 over a decode that rides on a chunk of 1021 tokens, both at 1K.

    Requests come one by one; three decode when the fourth arrives, and later all four.
    """
    trace = "arrival_ns,prompt_tokens,output_tokens\n" + "".join(
        f"{second}000000000,1021,300\n" for second in (0, 2, 4, 6))
    text = experiment(
        workload={"trace": {"path": "trace.csv", "format": "twin"}},
        policy={"sarathi": {"chunk_size": 1024, "max_num_seqs": 4}},
        system={**A6000_SYSTEM, "hardware_spec": A6000_SHEET}, cost={"roofline": {}},
        outputs={"steps_csv": True})
    _, folder = simulator.run("sarathi/marginal", text, {"trace.csv": trace})
    steps = read_rows(folder / "steps.csv")
    alone = next(s for s in steps if (s["prefill_tokens"], s["decode_tokens"]) == (1021, 0))
    mixed = next(s for s in steps if (s["prefill_tokens"], s["decode_tokens"]) == (1021, 3))
    decode = next(s for s in steps if (s["prefill_tokens"], s["decode_tokens"]) == (0, 4))
    return (decode["duration_ms"] / 4) / ((mixed["duration_ms"] - alone["duration_ms"]) / 3)


def find(simulator):
    by_length = {length: gain(simulator, f"a6000_{length}", length * 1024, 50, 6, 256, A6000_SYSTEM,
                              FITTED_COST) for length in (1, 2, 3)}
    curve = [{"prompt_over_output": ratio,
              "gain": gain(simulator, f"ratio_{ratio}", 1024, ratio, 18, 256, A6000_SYSTEM,
                           FITTED_COST)} for ratio in RATIOS]
    simulator.write_curve("sarathi", curve)
    best = max(curve, key=lambda row: row["gain"])
    large = {"model": "llama-33b", "hardware": "a100-80gb-sxm",
             "memory": {"blocks_override": 700}}
    return {"marginal": marginal_cost(simulator),
            **{f"gain_{length}k": value for length, value in by_length.items()},
            "best_ratio": best["prompt_over_output"], "best_gain": best["gain"],
            "gain_33b": gain(simulator, "33b", 1024, 28, 10, 256, large, {"roofline": {}})}


def pipeline_trace(count=2000, seed=1):
    """Lengths of 1K-4K, Zipf of 0.4 over the ranks, P:D 10; all at once."""
    source = random.Random(seed)
    weights = [(rank + 1) ** -0.4 for rank in range(3073)]
    lines = ["arrival_ns,prompt_tokens,output_tokens"]
    for extra in source.choices(range(3073), weights, k=count):
        output = round((1024 + extra) / 11)
        lines.append(f"0,{1024 + extra - output},{output}")
    return "\n".join(lines) + "\n"


def pipeline_text(policy, cost):
    return experiment(
        workload={"trace": {"path": "trace.csv", "format": "twin"}}, policy=policy,
        system={"model": "gpt-3-175b", "hardware": "a100-80gb-sxm", "tensor_parallel": 8,
                "pipeline_parallel": STAGES, "model_shape": {"max_position": 4096},
                "memory": {"rule": Word("sarathi")}}, cost=cost)


def find_pipeline(simulator):
    policies = {"orca": {"orca": {"n_workers": STAGES, "max_bs": 27}},
                "sarathi": {"sarathi": {"chunk_size": 256, "max_num_seqs": 27 * STAGES,
                                        "pipeline_parallel_size": STAGES}}}
    rate, idle, share = {}, {}, {}
    for name, policy in policies.items():
        files = {"trace.csv": pipeline_trace()}
        rate[name] = simulator.run(f"sarathi/pipeline_{name}",
                                   pipeline_text(policy, {"roofline": {}}), files)[0][
            "request_throughput"]
        summary, _ = simulator.run(f"sarathi/bubbles_{name}",
                                   pipeline_text(policy, {"linear": LINEAR}), files)
        tokens = summary["computed_prefill_tokens"] + summary["computed_decode_tokens"]
        work = (summary["steps"] * LINEAR["base_s"]
                + tokens * LINEAR["per_prefill_token_s"]) / STAGES
        idle[name] = summary["run_seconds"] - work
        share[name] = 100 * idle[name] / summary["run_seconds"]
    return {"pipeline": rate["sarathi"] / rate["orca"], "bubbles_orca": share["orca"],
            "bubbles_ratio": idle["orca"] / idle["sarathi"]}


SOURCE = "Agrawal et al., arXiv 2308.16369, Tables 2 and 4, Figures 7-12"
CLAIMS = [
    Claim("sarathi", "Sarathi: decodes at a tenth of their cost, 1.33x end to end", SOURCE,
          "LLaMA-13B on an A6000: roofline of its data sheet for the marginal cost, the published "
          "step times for the gains; requests of equal length; against a static batch, which runs "
          "prefills and decodes apart", QUANTITIES, find, quick=True),
    Claim("sarathi_pipeline", "Sarathi: 1.91x with pipelines, bubbles / 6.29", SOURCE,
          "GPT-3 175B on 64 A100-80GB, 2,000 requests of 1K-4K tokens (Zipf 0.4, P:D 10) at once, "
          "at most 27 a batch, chunk 256; roofline for the rates, for bubbles a linear cost model",
          PIPELINE, find_pipeline, needs="step times by pipeline stage (the median bubble)"),
]
