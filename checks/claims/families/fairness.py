"""VTC: first come, first served lets the difference of service between two clients grow with time
(Sheng et al., OSDI 2024)."""
from claim import Claim, Quantity
from lengths import fixed
from simulator import Word, experiment

QUANTITIES = (
    Quantity("fcfs_500", "FCFS: difference of service after 500 s, thousands of weighted tokens",
             "about 300", "S", (150, 400), "scheduling", "speed of the A10G under LightLLM"),
    Quantity("fcfs_growth", "the same with twice the arrivals: linear in time", "2", "S",
             (1.6, 2.4), "scheduling"),
)
# NVIDIA's data sheet of the A10G; achieved shares as of the L4.
A10G = {"name": "a10g", "memory_bytes": 24 * 2 ** 30, "memory_bandwidth_bytes_per_s": 600e9,
        "sm_count": 80, "peak_bf16_flops": 70e12}


def find(simulator):
    text = experiment(
        workload={"duration_s": 500, "arrivals": {"kind": Word("poisson"), "rate": 4.5},
                  "shape": {"prompt": fixed(256), "output": fixed(256),
                            "tenants": [{"weight": 1}, {"weight": 2}]}},
        policy={"vllm_v0": {}},
        system={"model": "llama-2-7b", "hardware": "l4", "hardware_spec": A10G,
                "memory": {"blocks_override": 10000 // 16}},
        cost={"roofline": {}}, metrics={"by_tenant": True})
    rows = simulator.sweep("fairness", {"fcfs": text}, [("workload.duration_s", (250, 500))],
                           replications=5)
    row = {int(row["workload.duration_s"]): row for row in rows}
    # The queue lasts as long as the run, which goes on after the last arrival.
    per_second = row[500]["max_service_difference"] / row[500]["run_seconds"]
    growth = row[500]["max_service_difference"] / row[250]["max_service_difference"]
    return {"fcfs_500": 500 * per_second / 1000, "fcfs_growth": growth}


CLAIMS = [Claim("vtc", "VTC: service of two clients differs by at most 2 max(w_p L, w_q M)",
                "Sheng et al., OSDI 2024", "the baseline only: Llama-2-7B on an A10G, 10,000 "
                "tokens of "
                "cache, clients of 90 and 180 req/min, 256/256; vLLM V0, first come, first served",
                QUANTITIES, find, quick=True,
                needs="vtc (the bound: 40,000 weighted tokens at any time)")]
