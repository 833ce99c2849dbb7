"""Readers of the recorded runs: what was sent, what came back, and the configuration of the server.

Every reader yields RecordedRun objects. Traps of the data sets that are minded: blis16 sends a pool
of 100 prompts in turn and its out_tokens are not the engine's; a saturated residency client is a
closed loop of 256 requests; LLMServingSim's times are the engine's; time per output token is
(end - first token) / (tokens - 1). Standard library only.
"""
import csv
import dataclasses
import glob
import gzip
import json
import os
import statistics

MODELS = {"Qwen/Qwen3-14B": "qwen3-14b", "Qwen/Qwen3-32B": "qwen3-32b",
          "Qwen/Qwen3-30B-A3B": "qwen3-30b-a3b", "meta-llama/Llama-3.1-8B": "llama-3.1-8b",
          "meta-llama/Llama-2-7b-hf": "llama-2-7b", "meta-llama/Llama-2-70b-hf": "llama-2-70b",
          "mistralai/Mixtral-8x7B-v0.1": "mixtral-8x7b",
          "mistralai/Mistral-Nemo-Instruct-2407": "mistral-nemo-12b", "01-ai/Yi-34B": "yi-34b",
          "codellama/CodeLlama-34b-Instruct-hf": "codellama-34b"}
GPUS = {"RTXPRO6000": "rtx-pro-6000-server", "RTX4090": "rtx-4090"}
PROMPT_POOL = 100  # of blis16: lengths repeat with this period
WARM_UP_S = 60  # of blis16: the first minute has cold caches
CLIENT_CAP = 256  # of residency: requests in flight at most


@dataclasses.dataclass
class Request:
    arrival: float  # seconds; the others too
    prompt: int
    output: int
    ttft: float | None = None  # None: failed
    e2e: float | None = None
    chunks: tuple = ()  # content in chunks of 16 tokens


@dataclasses.dataclass
class RecordedRun:
    data_set: str
    name: str
    server: str
    model: str
    gpu: str
    requests: list
    policy: str  # fields of policy.vllm_v1 as the server had resolved them
    blocks: int
    tensor: int = 1
    side: str = "client"  # where the latencies were taken
    cap: int = 0
    pool: int = 0
    skip_s: float = 0
    saturated: bool = False
    gaps: list = dataclasses.field(default_factory=list)  # between tokens, in seconds
    load: dict = dataclasses.field(default_factory=dict)  # means over time
    load_by: str = "time"  # or "step": the means are over steps

    @property
    def full_name(self):
        return f"{self.data_set}/{self.name}"


def rows(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def policy_fields(tokens, sequences, length):
    return (f"max_num_batched_tokens: {tokens} max_num_seqs: {sequences} "
            f"max_model_len: {length} enable_prefix_caching: true")


def residency_gaps(folder, name):
    """Times between the tokens of each request; chunks 1 to 128 are tokens."""
    path = f"{folder}/itl/{name}.csv.gz"
    gaps, last = [], None
    for row in rows(path) if os.path.exists(path) else []:
        chunk, time = int(row["chunk"]), int(row["t_us"]) * 1e-6
        if 2 <= chunk <= 128:
            gaps.append(time - last)
        last = time
    return gaps


def residency(folder):
    """Qwen3-14B on one H100 behind vLLM 0.23.0."""
    for run in rows(f"{folder}/runs.csv"):
        path = f"{folder}/requests/{run['run']}.csv.gz"
        if not os.path.exists(path):
            continue
        saturated = int(run["max_in_flight"]) >= CLIENT_CAP
        clock = "intended_arrival_us" if saturated else "send_us"
        recorded = [row for row in rows(path) if row["status"] in ("", "ok")]
        recorded.sort(key=lambda row: int(row[clock]))
        first = int(recorded[0][clock])
        requests = [Request((int(row[clock]) - first) * 1e-6, int(row["in_tokens"]),
                            int(row["out_tokens"]),
                            (int(row["first_us"]) - int(row["send_us"])) * 1e-6,
                            (int(row["last_us"]) - int(row["send_us"])) * 1e-6)
                    for row in recorded]
        yield RecordedRun(os.path.basename(folder), run["run"], "vllm-0.23.0", "qwen3-14b",
                          "h100-sxm", requests, policy_fields(8192, 256, 40960), 18038,
                          cap=CLIENT_CAP if saturated else 0, saturated=saturated,
                          gaps=residency_gaps(folder, run["run"]))


def blis16_load(folder, run):
    """Means over the sampled steps of the run behind its warm-up; {} if it has none."""
    path = f"{folder}/../blis16_steps/steps.csv.gz"
    if not os.path.exists(path):
        return {}
    steps = [row for row in rows(path)
             if row["experiment"] == f"{run['timestamp']}-{run['run']}"
             and float(row["t_start_us"]) >= WARM_UP_S * 1e6]
    if not steps:
        return {}
    used = [int(row["kv_blocks_used"]) / int(row["kv_blocks_total"]) for row in steps]
    return {"running_mean": statistics.fmean(int(row["running"]) for row in steps),
            "waiting_mean": statistics.fmean(int(row["waiting"]) for row in steps),
            "kv_share_mean": statistics.fmean(used)}


def blis16(folder):
    """Five models on H100s behind vLLM 0.15.1, with a pool of prompts."""
    for run in rows(f"{folder}/runs.csv"):
        path = f"{folder}/requests/{run['run']}.csv.gz"
        if not os.path.exists(path):
            continue
        nominal = int(run["system_prompt_len"]) + int(run["question_len"])
        requests = []
        for row in rows(path):
            failed = row["error"] != "0"
            requests.append(Request(int(row["arrival_us"]) * 1e-6,
                                    int(row["in_tokens"]) or nominal, int(run["output_len"]),
                                    None if failed else int(row["ttft_us"]) * 1e-6,
                                    None if failed else int(row["e2e_us"]) * 1e-6))
        policy = policy_fields(run["max_num_batched_tokens"], run["max_num_seqs"],
                               run["max_model_len"])
        yield RecordedRun(os.path.basename(folder), run["run"], "vllm-0.15.1",
                          MODELS[run["model"]], "h100-sxm", requests, policy,
                          int(run["kv_blocks"]), tensor=int(run["tp"]), pool=PROMPT_POOL,
                          skip_s=WARM_UP_S, load=blis16_load(folder, run), load_by="step",
                          saturated=int(run["n_failed"]) > 0)


def lss_load(path):
    series = rows(path)
    mean = lambda name: statistics.fmean(float(row[name]) for row in series)
    return {"running_mean": mean("running"), "waiting_mean": mean("waiting"),
            "kv_share_mean": mean("kv_cache_pct") / 100} if series else {}


def lss_content(folder, name):
    """Block hashes of the prompts, by request; None if the workload is not there."""
    path = f"{folder}/../../traces/llmservingsim_sharegpt300_{name.lower()}.jsonl.gz"
    if not os.path.exists(path):
        return None
    with gzip.open(path, "rt") as file:
        return [tuple(json.loads(line)["block_hash_ids_16tok"]) for line in file]


def lss_blocks(meta):
    """None: not recorded, and the memory rule decides."""
    return meta.get("kv_cache", {}).get("num_gpu_blocks")


def lss(folder):
    """vLLM 0.19.0 of LLMServingSim's bench; times of the engine."""
    for path in sorted(glob.glob(f"{folder}/*/*.requests.csv")):
        stem = path.removesuffix(".requests.csv")
        with open(f"{stem}.meta.json", encoding="utf-8") as file:
            meta = json.load(file)
        kwargs = meta["engine_kwargs"]
        if meta["model"] not in MODELS or kwargs["data_parallel_size"] > 1:
            continue  # data and expert parallelism cannot be said
        name, gpu = os.path.basename(stem), path.split("/")[-2]
        content = lss_content(folder, name)
        requests = []
        for row in rows(path):
            queued = float(row["queued_s"])
            chunks = content[int(row["req"].split("-")[-1])] if content else ()
            requests.append(Request(max(0.0, queued), int(row["in_tokens"]),
                                    int(row["out_tokens"]), float(row["first_token_s"]) - queued,
                                    float(row["last_token_s"]) - queued, chunks))
        model = MODELS[meta["model"]]
        length = kwargs["max_model_len"] or {"qwen3-32b": 40960}.get(model, 131072)
        policy = policy_fields(kwargs["max_num_batched_tokens"], kwargs["max_num_seqs"], length)
        yield RecordedRun(os.path.basename(folder), f"{gpu}/{name}", "vllm-0.19.0", model,
                          GPUS[gpu], requests, policy, lss_blocks(meta),
                          tensor=kwargs["tensor_parallel_size"], side="engine",
                          load=lss_load(f"{stem}.timeseries.csv"))


READERS = {"residency_h100_qwen14b": residency, "blis16_requests": blis16, "lss_vllm_bench": lss}


def read_all(folder):
    """Every run that a server of twinserve can reproduce, in a fixed order."""
    found = []
    for name, read in READERS.items():
        if os.path.isdir(f"{folder}/{name}"):
            found += read(f"{folder}/{name}")
    return found
