"""DistServe: the arithmetic of its Figure 1, as far as one device goes (Zhong et al., 2024)."""
from claim import Claim, Quantity
from lengths import fixed
from simulator import Word, experiment

SLO = "p90_ttft_ms<=400 && p90_tpot_ms<=40"
OPEN = ("the speed of the authors' kernels (5.6 req/s are 74 TFLOP/s); the bounds of Figure 1 "
        "(TTFT 0.4 s, TPOT 0.04 s at P90: M)")
QUANTITIES = (
    Quantity("together", "prefill and decode on one device, vLLM V0: req/s", "1.6", "R",
             (1.36, 1.84), "scheduling", OPEN),
    Quantity("prefill_alone", "a device that only prefills: req/s", "5.6", "R", (4.76, 6.44),
             "kernels", OPEN),
    Quantity("together_chunked", "the baseline that is missing: together, with chunks of 512 "
             "tokens (disaggregated: 3.3 per device)", "-", "D", (1.65, 3.3), "scheduling", OPEN),
)
POLICIES = {"together": {"vllm_v0": {}}, "together_chunked": {"sarathi": {"chunk_size": 512}},
            "prefill_alone": {"vllm_v0": {}}}


def rate(simulator, name):
    alone = name == "prefill_alone"
    text = experiment(
        workload={"requests": 1500, "arrivals": {"kind": Word("poisson"), "rate": 1},
                  "shape": {"prompt": fixed(512), "output": fixed(1 if alone else 64)}},
        policy=POLICIES[name],
        system={"model": "opt-13b", "hardware": "a100-80gb-sxm",
                "memory": {"rule": Word("vllm_v0")}}, cost={"roofline": {}})
    return simulator.capacity(f"distserve/{name}", text, SLO.split(" && ")[0] if alone else SLO,
                              (0.1, 60))


CLAIMS = [Claim(
    "distserve", "DistServe: 7.4x rate (MII) or 12.6x tighter SLO (vLLM)",
    "Zhong et al., OSDI 2024, Figure 1",
    "OPT-13B on an A100-80GB, 512 in, 64 out, Poisson; largest rate at which 90 % of the requests "
    "keep each bound; roofline", QUANTITIES,
    lambda simulator: {name: rate(simulator, name) for name in POLICIES},
    needs="disaggregation of prefill and decode")]
