"""Sarathi-Serve: 2.6x to 5.6x the capacity under a bound on the 99th percentile of the time between
tokens (Agrawal et al., OSDI 2024)."""
from claim import Claim, Quantity
from lengths import SHAREGPT4_SARATHI
from simulator import Word, experiment

# P99 TBT in ms: relaxed, strict (Table 3); for the curve also bounds between and beyond.
MISTRAL_BOUNDS = (100, 200, 500, 1000, 2000)
KNEES = "the joint distribution of lengths, the search's tolerance, the authors' step times"
QUANTITIES = (
    Quantity("mistral_strict", "Mistral-7B, A100-80GB, P99 TBT <= 100 ms, budget 512: Sarathi / "
             "vLLM", "2.6", "R", (2, 4), "scheduling", KNEES),
    Quantity("mistral_relaxed", "the same, 500 ms, budget 2048", "-", "D", (1.0, 1.7), "scheduling",
             KNEES),
    Quantity("mistral_loose", "the same, 2 s: above the prefill of the longest prompt", "toward 1",
             "D", (0.8, 1.2), "scheduling", KNEES),
    Quantity("yi_strict", "Yi-34B, TP2 A100-80GB, 200 ms, budget 512: Sarathi / vLLM", "3.7", "R",
             (2, 4), "scheduling", KNEES),
    Quantity("yi_strict_orca", "the same: Sarathi / Orca", "4.0", "R", (2, 5), "scheduling", KNEES),
    Quantity("yi_relaxed", "Yi-34B, 1 s, budget 2048: Sarathi / vLLM", "-", "D", (1.0, 1.7),
             "scheduling", KNEES),
    Quantity("falcon_strict", "Falcon-180B, TP4-PP2 over 100 GbE, 1 s, budget 512, against vLLM "
             "with TP8", "4.3", "R", (3, 5), "scheduling, kernels", "the speed of all-reduces over "
             "100 GbE in the authors' cluster"),
)
ABLATION_RATES = (0.5, 0.75, 1, 1.25, 1.5)
ABLATION = "the rate: 0.5 req/s here (sarathi_parts.csv: 5.1 for stalls at 1.5 req/s)"
PARTS = (
    Quantity("stalls", "Yi-34B, budget 1024, P99 TBT: whole prompts in mixed steps over chunks",
             "4.9", "R", (2.5, 7), "scheduling", ABLATION),
    Quantity("first_token", "the same, P50 TTFT: chunks over whole prompts", "1.4", "R", (1.0, 1.8),
             "scheduling", ABLATION),
)
PARALLEL = {"mistral": {}, "yi": {"tensor_parallel": 2},
            "falcon": {"tensor_parallel": 4, "pipeline_parallel": 2},
            "falcon_tp8": {"tensor_parallel": 8}}
MODELS = {"mistral": "mistral-7b", "yi": "yi-34b", "falcon": "falcon-180b",
          "falcon_tp8": "falcon-180b"}


def text_of(case, policy, rate=1, requests=600):
    nodes = {"devices_per_node": 4, "inter_node_bandwidth_bytes_per_s": 12.5e9}
    return experiment(
        workload={"requests": requests, "arrivals": {"kind": Word("poisson"), "rate": rate},
                  "shape": SHAREGPT4_SARATHI},
        policy=policy,
        system={"model": MODELS[case], "model_shape": {"max_position": 8192},
                "hardware": "a100-80gb-sxm", "hardware_spec": nodes, **PARALLEL[case],
                "memory": {"rule": Word("vllm_v0"), "max_step_tokens": 8192}},
        cost={"roofline": {}})


def sarathi(budget, stages=1):
    return {"sarathi": {"chunk_size": budget, "pipeline_parallel_size": stages}}


VLLM = {"vllm_v0": {"max_num_batched_tokens": 8192, "max_num_seqs": 128}}
ORCA = {"orca": {"max_bs": 128}}


def capacity(simulator, case, name, policy, bound_ms):
    return simulator.capacity(f"sarathi_serve/{case}_{name}_{bound_ms}", text_of(case, policy),
                              f"p99_itl_ms<={bound_ms} && p50_queue_ms<=2000", (0.01, 40),
                              tolerance=0.02) or 0


def ratio(simulator, case, bound_ms, budget, other="vllm", policy=VLLM):
    base = capacity(simulator, case, other, policy, bound_ms)
    return capacity(simulator, case, f"sarathi{budget}", sarathi(budget), bound_ms) / base


def find(simulator):
    curve = []
    for bound in MISTRAL_BOUNDS:
        rates = {name: capacity(simulator, "mistral", name, policy, bound) for name, policy in
                 (("vllm", VLLM), ("sarathi512", sarathi(512)), ("sarathi2048", sarathi(2048)))}
        curve.append({"tbt_ms": bound, **rates})
    simulator.write_curve("sarathi_serve", curve)
    at = {row["tbt_ms"]: row for row in curve}
    falcon = capacity(simulator, "falcon", "sarathi512", sarathi(512, 2), 1000)
    return {"mistral_strict": at[100]["sarathi512"] / at[100]["vllm"],
            "mistral_relaxed": at[500]["sarathi2048"] / at[500]["vllm"],
            "mistral_loose": at[2000]["sarathi2048"] / at[2000]["vllm"],
            "yi_strict": ratio(simulator, "yi", 200, 512),
            "yi_strict_orca": ratio(simulator, "yi", 200, 512, "orca", ORCA),
            "yi_relaxed": ratio(simulator, "yi", 1000, 2048),
            "falcon_strict": falcon / capacity(simulator, "falcon_tp8", "vllm", VLLM, 1000)}


def find_parts(simulator):
    rows = {(row["base"], row["workload.arrivals.rate"]): row for row in simulator.sweep(
        "sarathi_serve/ablation", {name: text_of("yi", policy, 0.5, 128) for name, policy in
                                   (("whole", ORCA), ("chunks", sarathi(1024)))},
        [("workload.arrivals.rate", ABLATION_RATES)], replications=10)}
    curve = [{"rate": rate,
              "stalls": rows["whole", rate]["p99_itl_ms"] / rows["chunks", rate]["p99_itl_ms"],
              "first_token": (rows["chunks", rate]["p50_ttft_ms"]
                              / rows["whole", rate]["p50_ttft_ms"])} for rate in ABLATION_RATES]
    simulator.write_curve("sarathi_parts", curve)
    return {name: curve[0][name] for name in ("stalls", "first_token")}


SOURCE = "Agrawal et al., OSDI 2024, section 5"
CLAIMS = [
    Claim("sarathi_serve", "Sarathi-Serve: 2.6x, 3.7x, 5.6x capacity", SOURCE,
          "sharegpt4_sarathi (lognormal through the published quantiles), Poisson; largest rate "
          "with "
          "P99 TBT within the bound and a median queueing delay of at most 2 s; all policies on "
          "one "
          "roofline cost model and one cache", QUANTITIES, find,
          needs="vLLM V0 with pipeline stages (3.6x on Falcon), a data sheet of the A40 "
          "(LLaMA2-70B: "
          "4.3x, 6.3x)"),
    Claim("sarathi_parts", "Sarathi-Serve: what chunks add to mixed steps", SOURCE + ", ablation",
          "Yi-34B, TP2 A100-80GB, sharegpt4_sarathi, 128 requests; Orca mixes whole prompts with "
          "decodes", PARTS, find_parts, quick=True, needs="chunks without mixed steps"),
]
