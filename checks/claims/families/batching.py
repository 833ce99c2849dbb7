"""Everyday advice on continuous batching: 2-3x throughput, utilisation from 30-50 % to 80 %, and
one long answer among short ones. No source gives a setting."""
from claim import Claim, Quantity
from lengths import exponential_below, fixed, lognormal_mean
from simulator import Word, experiment, read_rows

SIGMAS = (0, 0.25, 0.5, 0.75, 1, 1.25, 1.5)  # of lognormal output lengths
BATCH = 8
ADVICE = (
    Quantity("gain", "req/s of continuous over static batching, batch 8, exponential outputs of "
             "mean 128, equal kernels", "2-3", "S", (2, 3), "scheduling", "every setting"),
    Quantity("gain_equal", "the same with equal outputs", "-", "D", (0.9, 1.1), "scheduling"),
    Quantity("latency", "mean end-to-end latency, continuous over static, at 80 % of the static "
             "capacity", "at most 1.1", "S", (0, 1.1), "scheduling", "every setting"),
    Quantity("slots_4", "slot use of static batches of 4, exponential outputs, %", "30-50; 48 (D)",
             "D", (45, 51), "scheduling"),
    Quantity("slots_8", "the same, 8", "30-50; 37 (D)", "D", (34, 40), "scheduling"),
    Quantity("slots_16", "the same, 16", "30-50; 30 (D)", "D", (27, 33), "scheduling"),
    Quantity("slots_continuous", "slot use of continuous batching, batch 8, %", "75-85", "S",
             (75, 100), "scheduling"),
)
LONG = (
    Quantity("slots_static", "useful rows of a static batch of 4 with outputs 5,000, 50, 50, 50, %",
             "25.8", "D", (25.7, 25.9), "scheduling"),
    Quantity("short_wait", "end-to-end latency of the short answers: static / continuous", "100",
             "D", (80, 120), "scheduling"),
    Quantity("gain_queue", "a queue of such answers, one in four long: req/s of continuous over "
             "static, batch 4", "below 1/.258 = 3.9", "D", (2, 3.9), "scheduling"),
)
SYSTEM = {"model": "llama-2-7b", "hardware": "a100-80gb-sxm", "memory": {"blocks_override": 4000}}
POLICIES = {"static": "static", "continuous": "orca"}


def policy(kind, batch):
    return ({"static": {"max_batch_size": batch}} if kind == "static"
            else {"orca": {"max_bs": batch}})


def text_of(kind, batch, output, arrivals=None, requests=800):
    return experiment(
        workload={"requests": requests, "arrivals": arrivals or {"kind": Word("all_at_once")},
                  "shape": {"prompt": fixed(128), "output": output}},
        policy=policy(kind, batch), system=SYSTEM, cost={"roofline": {}})


def slot_use(row):
    """Share of the rows of decode steps that made a token for somebody."""
    useful = row["computed_decode_tokens"]
    charged = row["mean_batch_tokens"] * row["steps"]
    return 100 * useful / (useful + row["padding_share"] * charged)


def both(simulator, name, batch, output, arrivals=None):
    rows = simulator.sweep(f"batching/{name}", {kind: text_of(kind, batch, output, arrivals)
                                                for kind in POLICIES}, replications=5)
    return {row["base"]: row for row in rows}


def gain(rows):
    return rows["continuous"]["request_throughput"] / rows["static"]["request_throughput"]


def find(simulator):
    exponential = exponential_below(128, 3900)
    by_batch = {batch: both(simulator, f"exponential_{batch}", batch, exponential)
                for batch in (4, BATCH, 16)}
    curve = []
    for sigma in SIGMAS:
        output = lognormal_mean(128, sigma, 3900) if sigma else fixed(128)
        rows = both(simulator, f"sigma_{sigma}", BATCH, output)
        curve.append({"sigma": sigma, "gain": gain(rows), "static_slots": slot_use(rows["static"])})
    simulator.write_curve("batching", curve)
    rate = 0.8 * by_batch[BATCH]["static"]["request_throughput"]
    loaded = both(simulator, "loaded", BATCH, exponential,
                  {"kind": Word("poisson"), "rate": round(rate, 6)})
    running = by_batch[BATCH]["continuous"]
    return {"gain": gain(by_batch[BATCH]), "gain_equal": curve[0]["gain"],
            "latency": loaded["continuous"]["mean_e2el_ms"] / loaded["static"]["mean_e2el_ms"],
            **{f"slots_{batch}": slot_use(rows["static"]) for batch, rows in by_batch.items()},
            "slots_continuous": 100 * running["mean_batch_sequences"] / BATCH}


def find_long(simulator):
    system = {**SYSTEM, "model": "llama-3.1-8b",
              "memory": {**SYSTEM["memory"], "max_model_length": 8192}}
    four = "arrival_ns,prompt_tokens,output_tokens\n0,128,5000\n" + "0,128,50\n" * 3
    runs = {}
    for name, trace in (("four", four), ("queue", four + four.split("\n", 1)[1] * 49)):
        for kind in POLICIES:
            text = experiment(workload={"trace": {"path": "trace.csv", "format": "twin"}},
                              policy=policy(kind, 4), system=system, cost={"roofline": {}},
                              outputs={"requests_csv": True})
            runs[name, kind] = simulator.run(f"batching/{name}_{kind}", text, {"trace.csv": trace})
    short = {kind: next(row["e2el_ms"] for row in
                        read_rows(runs["four", kind][1] / "requests.csv")
                        if row["output_tokens"] == 50) for kind in POLICIES}
    rate = {kind: runs["queue", kind][0]["request_throughput"] for kind in POLICIES}
    return {"slots_static": slot_use(runs["four", "static"][0]),
            "short_wait": short["static"] / short["continuous"],
            "gain_queue": rate["continuous"] / rate["static"]}


CLAIMS = [
    Claim("batching", "Continuous batching: 2-3x, utilisation 30-50 -> 80 %", "blogs, no setting",
          "Llama-2-7B, A100-80GB, 128 in; static batches against Orca with as many requests; "
          "saturated, and Poisson at 80 % of the static capacity; one roofline cost model", ADVICE,
          find,
          quick=True),
    Claim("long_answer", "One answer of 5,000 tokens among three of 50", "arithmetic",
          "Llama-3.1-8B, A100-80GB, batches of 4: four requests alone, and a queue of 200", LONG,
          find_long, quick=True),
]
