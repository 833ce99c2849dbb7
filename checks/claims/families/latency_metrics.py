"""Where the time between tokens (ITL) and the time per output token (TPOT) disagree: one controlled
run for each of seven causes."""
from claim import Claim, Quantity
from lengths import fixed, uniform
from simulator import Word, experiment

QUANTITIES = (
    Quantity("alone", "no cause: one request at a time, short context: p99 ITL / p99 TPOT", "1",
             "D", (0.99, 1.01), "arithmetic"),
    Quantity("uneven", "1. uneven speed: prefills between decodes (vLLM V0): p99 ITL / p99 TPOT",
             "differ", "D", (1.5, 50), "scheduling"),
    Quantity("first_token", "2. first token counted (e2e / n) or not: mean / mean TPOT", "differ",
             "D", (1.02, 5), "arithmetic"),
    Quantity("context", "4. long context: p99 ITL / mean TPOT of one answer of 30,000 tokens",
             "differ", "D", (1.05, 2), "kernels"),
    Quantity("noise", "5. noise: response times exponential, 20 ms: p99 ITL / p99 TPOT", "differ",
             "D", (1.5, 20), "arithmetic", "noise per token: a simulated boundary delays all "
             "tokens of a request alike"),
    Quantity("model", "6. model: the ratio of cause 1 for Mixtral 8x7B over that for Mistral 7B",
             "differ", "D", (0.5, 2), "kernels"),
    Quantity("caches", "7. prefix cache hits: p99 ITL without caching over with; mean TPOT "
             "likewise is nearer to 1", "differ", "D", (1.05, 20), "scheduling, memory"),
)
DEVICE = "a100-80gb-sxm"


def text_of(shape, arrivals, policy, model="llama-3.1-8b", tensor=1, requests=400, **system):
    return experiment(workload={"requests": requests, "arrivals": arrivals, "shape": shape},
                      policy=policy,
                      system={"model": model, "hardware": DEVICE, "tensor_parallel": tensor,
                              **system},
                      cost={"roofline": {}})


def poisson(rate):
    return {"kind": Word("poisson"), "rate": rate}


def find(simulator):
    chat = {"prompt": uniform(200, 1800), "output": uniform(50, 350)}
    serial = {"kind": Word("constant"), "rate": 0.2}
    v0 = {"vllm_v0": {"max_num_batched_tokens": 4096, "max_model_len": 4096}}
    sessions = {"prompt": uniform(500, 1500), "output": uniform(50, 150),
                "sessions": {"turns": fixed(6), "context_tokens_max": 16000,
                             "think": {"kind": Word("exponential"), "mean_s": 5}}}
    texts = {
        "alone": text_of({"prompt": fixed(128), "output": fixed(64)}, serial, v0, requests=50),
        "uneven": text_of(chat, poisson(4), v0),
        "context": text_of({"prompt": fixed(100), "output": fixed(30000)}, serial,
                           {"vllm_v1": {"max_model_len": 32768}}, requests=1),
        "noise": text_of({"prompt": fixed(128), "output": fixed(64)}, serial, v0, requests=50,
                         boundary={"response_s": {"kind": Word("exponential"), "mean_s": 0.02}}),
        "mistral": text_of(chat, poisson(2), v0, "mistral-7b", 2),
        "mixtral": text_of(chat, poisson(2), v0, "mixtral-8x7b", 2),
        **{f"caching_{on}": text_of(sessions, poisson(1.2),
                                    {"vllm_v1": {"enable_prefix_caching": on}}, requests=600)
           for on in (False, True)},
    }
    rows = {row["base"]: row for row in simulator.sweep("latency_metrics", texts, replications=3)}
    gap = {name: row["p99_itl_ms"] / row["p99_tpot_ms"] for name, row in rows.items()}
    simulator.write_curve("latency_metrics", [
        {"run": name, **{key: row[key] for key in ("mean_itl_ms", "p99_itl_ms", "mean_tpot_ms",
                                                   "p99_tpot_ms", "mean_normalized_ms_per_token")}}
        for name, row in rows.items()])
    return {"alone": gap["alone"], "uneven": gap["uneven"],
            "first_token": (rows["uneven"]["mean_normalized_ms_per_token"]
                            / rows["uneven"]["mean_tpot_ms"]),
            "context": rows["context"]["p99_itl_ms"] / rows["context"]["mean_tpot_ms"],
            "noise": gap["noise"], "model": gap["mixtral"] / gap["mistral"],
            "caches": rows["caching_False"]["p99_itl_ms"] / rows["caching_True"]["p99_itl_ms"]}


CLAIMS = [Claim("itl_tpot", "Where ITL and TPOT disagree: seven causes", "no single source; "
                "claim 20",
                "one controlled run for each cause, Llama-3.1-8B on an A100-80GB, roofline",
                QUANTITIES, find, quick=True,
                needs="speculative decoding (cause 3: several tokens at once)")]
