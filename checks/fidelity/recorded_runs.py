"""Readers of the recorded runs: requests, answers, and the configuration of the server.

Every reader yields RecordedRun objects. Traps of the data sets that the readers handle: blis16 sends a pool
of 100 prompts in turn and its out_tokens are not the engine's; a saturated residency client is a
closed loop of 256 requests; LLMServingSim's times are the engine's; time per output token is
(end - first token) / (tokens - 1). Models and GPUs without an entry below go by the name that the
data has. Files of single tokens, of load over time and of steps may be missing, and tables may be
plain or gzip. Other gaps raise DataError with the file. Standard library only.
"""
import csv
import dataclasses
import glob
import gzip
import json
import os
import re
import statistics
import sys

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


class DataError(Exception):
    """One line: the file, and what it lacks."""


class Row(dict):
    """A row of a table, which knows the table's name."""

    def __init__(self, path, fields):
        super().__init__(fields)
        self.path = path

    def __missing__(self, column):
        raise DataError(f"{self.path}: column '{column}' is missing")

    def number(self, column, kind=int):
        try:
            return kind(self[column])
        except (TypeError, ValueError):
            raise DataError(f"{self.path}: {column}: found '{self[column]}'; allowed: a number"
                            ) from None


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


def table_path(stem):
    """STEM.csv or STEM.csv.gz; None if neither is there."""
    return next((path for path in (f"{stem}.csv", f"{stem}.csv.gz") if os.path.exists(path)), None)


def rows(path):
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", newline="") as file:
            return [Row(path, fields) for fields in csv.DictReader(file)]
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None


def left_out(name, why):
    print(f"run: {name}: left out, {why}", file=sys.stderr)


def policy_fields(tokens, sequences, length):
    """Without a length, the model's."""
    longest = f"max_model_len: {length} " if length else ""
    return (f"max_num_batched_tokens: {tokens} max_num_seqs: {sequences} "
            f"{longest}enable_prefix_caching: true")


def server_of(text, usual):
    """The version in "patched vLLM 0.23.0"; the usual one without any."""
    found = re.search(r"vllm[ =-]*v?(\d[\w.]*)", text or "", re.IGNORECASE)
    return f"vllm-{found[1]}" if found else usual


def residency_gaps(folder, name):
    """Times between the tokens of each request; chunks 1 to 128 are tokens."""
    path = table_path(f"{folder}/itl/{name}")
    gaps, last = [], None
    for row in rows(path) if path else []:
        chunk, time = row.number("chunk"), row.number("t_us") * 1e-6
        if 2 <= chunk <= 128:
            gaps.append(time - last)
        last = time
    return gaps


def residency(folder):
    """Qwen3-14B on one H100 behind vLLM 0.23.0."""
    for run in rows(f"{folder}/runs.csv"):
        path = table_path(f"{folder}/requests/{run['run']}")
        if not path:
            continue
        saturated = run.number("max_in_flight") >= CLIENT_CAP
        clock = "intended_arrival_us" if saturated else "send_us"
        recorded = [row for row in rows(path) if row["status"] in ("", "ok")]
        if not recorded:
            left_out(run["run"], "no request was answered")
            continue
        recorded.sort(key=lambda row: row.number(clock))
        first = recorded[0].number(clock)
        requests = [Request((row.number(clock) - first) * 1e-6, row.number("in_tokens"),
                            row.number("out_tokens"),
                            (row.number("first_us") - row.number("send_us")) * 1e-6,
                            (row.number("last_us") - row.number("send_us")) * 1e-6)
                    for row in recorded]
        yield RecordedRun(os.path.basename(folder), run["run"],
                          server_of(run.get("server"), "vllm-0.23.0"), "qwen3-14b",
                          "h100-sxm", requests, policy_fields(8192, 256, 40960), 18038,
                          cap=CLIENT_CAP if saturated else 0, saturated=saturated,
                          gaps=residency_gaps(folder, run["run"]))


def blis16_load(folder, run):
    """Means over the sampled steps of the run behind its warm-up; {} if it has none."""
    path = table_path(f"{folder}/../blis16_steps/steps")
    if not path or "timestamp" not in run:
        return {}
    steps = [row for row in rows(path)
             if row["experiment"] == f"{run['timestamp']}-{run['run']}"
             and row.number("t_start_us", float) >= WARM_UP_S * 1e6]
    if not steps:
        return {}
    used = [row.number("kv_blocks_used") / row.number("kv_blocks_total") for row in steps]
    return {"running_mean": statistics.fmean(row.number("running") for row in steps),
            "waiting_mean": statistics.fmean(row.number("waiting") for row in steps),
            "kv_share_mean": statistics.fmean(used)}


def blis16(folder):
    """Five models on H100s behind vLLM 0.15.1, with a pool of prompts."""
    for run in rows(f"{folder}/runs.csv"):
        path = table_path(f"{folder}/requests/{run['run']}")
        if not path:
            continue
        nominal = run.number("system_prompt_len") + run.number("question_len")
        requests = []
        for row in rows(path):
            failed = row["error"] != "0"
            requests.append(Request(row.number("arrival_us") * 1e-6,
                                    row.number("in_tokens") or nominal, run.number("output_len"),
                                    None if failed else row.number("ttft_us") * 1e-6,
                                    None if failed else row.number("e2e_us") * 1e-6))
        policy = policy_fields(run["max_num_batched_tokens"], run["max_num_seqs"],
                               run["max_model_len"])
        yield RecordedRun(os.path.basename(folder), run["run"], "vllm-0.15.1",
                          MODELS.get(run["model"], run["model"]), "h100-sxm", requests, policy,
                          run.number("kv_blocks"), tensor=run.number("tp"), pool=PROMPT_POOL,
                          skip_s=WARM_UP_S, load=blis16_load(folder, run), load_by="step",
                          saturated=run.number("n_failed") > 0)


def lss_load(stem):
    path = table_path(f"{stem}.timeseries")
    series = rows(path) if path else []
    mean = lambda name: statistics.fmean(row.number(name, float) for row in series)
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


def lss_meta(path):
    """The configuration that the engine had; None without the file."""
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        raise DataError(f"{path}: is no JSON: {error}") from None


def lss_requests(path, content):
    requests = []
    for row in rows(path):
        queued = row.number("queued_s", float)
        chunks = content[int(row["req"].split("-")[-1])] if content else ()
        requests.append(Request(max(0.0, queued), row.number("in_tokens"), row.number("out_tokens"),
                                row.number("first_token_s", float) - queued,
                                row.number("last_token_s", float) - queued, chunks))
    return requests


def lss(folder):
    """vLLM 0.19.0 of LLMServingSim's bench; times of the engine."""
    for path in sorted(glob.glob(f"{folder}/*/*.requests.csv*")):
        stem, gpu = path[:path.rindex(".requests.csv")], path.split("/")[-2]
        name, meta = os.path.basename(stem), lss_meta(f"{stem}.meta.json")
        if meta is None:
            left_out(f"{gpu}/{name}",
                     f"as {name}.meta.json, which says how it was served, is missing")
            continue
        try:
            kwargs, model = meta["engine_kwargs"], meta["model"]
            policy = policy_fields(kwargs["max_num_batched_tokens"], kwargs["max_num_seqs"],
                                   kwargs.get("max_model_len"))
        except KeyError as error:
            raise DataError(f"{stem}.meta.json: {error} is missing") from None
        if kwargs.get("data_parallel_size", 1) > 1:
            continue  # data and expert parallelism cannot be said
        yield RecordedRun(os.path.basename(folder), f"{gpu}/{name}", "vllm-0.19.0",
                          MODELS.get(model, model), GPUS.get(gpu, gpu),
                          lss_requests(path, lss_content(folder, name)), policy, lss_blocks(meta),
                          tensor=kwargs.get("tensor_parallel_size", 1), side="engine",
                          load=lss_load(stem))


READERS = {"residency_h100_qwen14b": residency, "blis16_requests": blis16, "lss_vllm_bench": lss}


def read_all(folder):
    """Every run that a server of twinserve can reproduce, in a fixed order."""
    found = []
    for name, read in READERS.items():
        if os.path.isdir(f"{folder}/{name}"):
            found += read(f"{folder}/{name}")
    return found
