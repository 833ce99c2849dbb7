"""A KV cache makes decoding O(n) instead of O(n^2), 5-10 times faster (blogs)."""
import math

from claim import Claim, Quantity
from simulator import Word, experiment

LENGTHS = (128, 256, 512, 1000, 2000, 4000)
HARDWARE = {"a100": "a100-80gb-sxm", "h100": "h100-sxm"}
PROMPT = 16
SIMULATED = (
    Quantity("a100_128", "7B, A100: time for 128 tokens without cache over with", "1.0", "D",
             (0.8, 1.3), "arithmetic"),
    Quantity("a100_1000", "the same, 1,000 tokens", "4.4", "D", (3.1, 5.7), "arithmetic",
             "achieved compute and bandwidth"),
    Quantity("a100_2000", "the same, 2,000 tokens", "5-10; 8.5 (D)", "D", (5, 11), "arithmetic",
             "achieved compute and bandwidth"),
    Quantity("a100_4000", "the same, 4,000 tokens", "16", "D", (11, 21), "arithmetic",
             "achieved compute and bandwidth"),
    Quantity("h100_1000", "H100, 1,000 tokens", "2.5", "D", (1.7, 3.3), "arithmetic",
             "achieved compute and bandwidth"),
    Quantity("order_cached", "A100: exponent of the time in n from 1,000 to 4,000 tokens, with "
             "cache", "1", "D", (0.95, 1.2), "arithmetic"),
    Quantity("order_uncached", "the same without cache", "2", "D", (1.7, 2.2), "arithmetic"),
)
CPU = (
    Quantity("cpu_64", "30M model on this CPU: time for 64 tokens without cache over with",
             "above 1", "D", (1, 20), "arithmetic", checked=False),
    Quantity("cpu_256", "the same, 256 tokens", "above 5", "D", (5, 200), "arithmetic",
             checked=False),
)


def traces(tokens):
    """One request of `tokens` outputs; and as many prompts, each a token longer than the last."""
    head = "arrival_ns,prompt_tokens,output_tokens\n"
    return {"cached": head + f"0,{PROMPT},{tokens}\n",
            "uncached": head + "".join(f"0,{PROMPT + i},1\n" for i in range(tokens))}


def seconds(simulator, name, tokens, fields):
    """Time for the outputs with and without the cache, one request at a time."""
    found = {}
    for kind, trace in traces(tokens).items():
        text = experiment(workload={"trace": {"path": "trace.csv", "format": "twin"}},
                          policy={"orca": {"max_bs": 1}}, **fields)
        summary, _ = simulator.run(f"kv_cache/{name}_{tokens}_{kind}", text, {"trace.csv": trace})
        found[kind] = summary["duration_seconds"]
    return found


def find(simulator):
    found = {(name, tokens): seconds(simulator, name, tokens, {
        "system": {"model": "llama-2-7b", "hardware": hardware, "memory": {"blocks_override": 1000},
                   "model_shape": {"max_position": 8192}}, "cost": {"roofline": {}}})
             for name, hardware in HARDWARE.items() for tokens in LENGTHS}
    ratio = {key: both["uncached"] / both["cached"] for key, both in found.items()}
    simulator.write_curve("kv_cache", [{"tokens": tokens, **{name: ratio[name, tokens]
                                                             for name in HARDWARE}}
                                       for tokens in LENGTHS])
    order = {kind: math.log(found["a100", 4000][kind] / found["a100", 1000][kind], 4)
             for kind in ("cached", "uncached")}
    return {**{f"a100_{tokens}": ratio["a100", tokens] for tokens in (128, 1000, 2000, 4000)},
            "h100_1000": ratio["h100", 1000], "order_cached": order["cached"],
            "order_uncached": order["uncached"]}


def find_cpu(simulator):
    fields = {"world": {"real": {"device": Word("cpu"), "dummy_weights": True}},
              "system": {"model": str(simulator.experiments / "quickstart_cpu/model") + "/",
                         "hardware": "cpu-generic", "memory": {"blocks_override": 256}}}
    ratio = {}
    for tokens in (64, 256):
        both = seconds(simulator, "cpu", tokens, fields)
        ratio[tokens] = both["uncached"] / both["cached"]
    return {f"cpu_{tokens}": value for tokens, value in ratio.items()}


CLAIMS = [
    Claim("kv_cache", "KV cache: O(n) instead of O(n^2), 5-10x", "blogs, no setting",
          "Llama-2-7B, one request, prompt of 16; without cache, each token is a prefill of all "
          "tokens so far; roofline", SIMULATED, find, quick=True),
    Claim("kv_cache_cpu", "The same on this machine's CPU", "blogs, no setting",
          "30 million parameters, random weights, the real executor", CPU, find_cpu),
]
