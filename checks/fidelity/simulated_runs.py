"""Simulates recorded runs from their recorded configuration, and measures both alike.

simulate() writes an experiment and a trace of a RecordedRun, runs the program and returns the
values that recorded_measures() has of the recording. split.textproto says which runs were fitted.
"""
import csv
import fnmatch
import json
import pathlib
import re
import statistics
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
STATISTICS = ["mean", "p50", "p90", "p99"]


def experiment(run, cost, trace, variant, seed=None):
    """The experiment file of a recorded run."""
    blocks = "" if variant.get("formula") or not run.blocks else f"blocks_override: {run.blocks}"
    if seed is not None:
        cost = re.sub(r"profile\s*{", f"profile {{ draw_seed: {seed} ", cost, count=1)
    limits = f"max_in_flight: {run.cap} " if run.cap else ""
    limits += f"prompt_pool: {run.pool}" if run.pool else ""
    steps = str(run.load_by == "step" and bool(run.load)).lower()
    return f"""schema_version: 1
name: "fidelity"
seed: {1 if seed is None else seed}
workload {{ trace {{ path: "{trace}" format: "twin" }} {limits} }}
policy {{ vllm_v1 {{ {run.policy} {variant.get("policy", "")} }} }}
system {{
  server: "{run.server}" model: "{run.model}" hardware: "{run.gpu}" tensor_parallel: {run.tensor}
  memory {{ {blocks} }} {variant.get("boundary", "")}
}}
cost {{ {variant.get("cost") or cost} }}
outputs {{ requests_csv: true steps_csv: {steps} series_csv: true record: false perfetto: false }}
"""


def write_trace(run, path):
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["arrival_ns", "prompt_tokens", "output_tokens", "prefix_chunk_tokens",
                      "prefix_chunks"])
        for request in run.requests:
            out.writerow([round(request.arrival * 1e9), request.prompt, request.output,
                          16 if request.chunks else "", ";".join(map(str, request.chunks))])


def at_position(values, at):
    """Linear between sorted values, of which the first has the position 0."""
    low = int(at)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (at - low)


def quantile(values, share):
    """numpy's default. REQUIRES: sorted values, at least one."""
    return at_position(values, share * (len(values) - 1))


VALUES_OF_PREDICTION = 19  # the fewest whose interval holds one more value with 90 %


def prediction_interval(values):
    """(low, high), which hold one more value with 90 %, as PredictionIntervalOf of core/statistics.h.

    REQUIRES: at least VALUES_OF_PREDICTION values.
    """
    ordered, last = sorted(values), len(values) - 1
    low = (len(values) + 1) / (VALUES_OF_PREDICTION + 1) - 1
    return at_position(ordered, low), at_position(ordered, last - low)


def statistics_of(name, seconds):
    if not seconds:
        return {}
    values = sorted(seconds)
    return {f"{name}_mean": statistics.fmean(values),
            **{f"{name}_p{p}": quantile(values, p / 100) for p in (50, 90, 99)}}


def measures(finished):
    """finished: (arrival, ttft, e2e, tokens) of every completed request, in seconds."""
    if not finished:
        return {}
    paces = [(e2e - ttft) / (tokens - 1) for _, ttft, e2e, tokens in finished if tokens > 1]
    span = max(a + e2e for a, _, e2e, _ in finished) - min(a for a, _, _, _ in finished)
    return {**statistics_of("ttft", [ttft for _, ttft, _, _ in finished]),
            **statistics_of("tpot", paces),
            **statistics_of("e2e", [e2e for _, _, e2e, _ in finished]),
            "throughput": len(finished) / span}


def named_throughput(run, values):
    """The throughput of a saturated run is the server's capacity."""
    if run.saturated and "throughput" in values:
        values["capacity"] = values.pop("throughput")
    return values


def recorded_measures(run):
    finished = [(r.arrival, r.ttft, r.e2e, r.output) for r in run.requests
                if r.e2e is not None and r.arrival >= run.skip_s]
    blocks = {"kv_blocks": run.blocks} if run.blocks else {}
    return named_throughput(run, {**measures(finished), **statistics_of("itl", run.gaps),
                                  **run.load, **blocks})


def simulated_load(run, folder):
    """Means of the load over the time, or the steps, for which it was recorded."""
    if not run.load:
        return {}
    if run.load_by == "step":
        with (folder / "steps.csv").open(newline="") as file:
            steps = [row for row in csv.DictReader(file)
                     if float(row["planned_at_s"]) >= run.skip_s]
        mean = lambda name: statistics.fmean(float(row[name]) for row in steps)
        return {"running_mean": mean("running"), "waiting_mean": mean("waiting"),
                "kv_share_mean": 1 - mean("free_blocks") / run.blocks}
    with (folder / "series.csv").open(newline="") as file:
        series = list(csv.DictReader(file))
    mean = lambda name: statistics.fmean(float(row[name]) for row in series)
    return {"running_mean": mean("running"), "waiting_mean": mean("waiting"),
            "kv_share_mean": mean("kv_used_share")}


def simulated_measures(run, folder, summary):
    with (folder / "requests.csv").open(newline="") as file:
        rows = csv.DictReader(file)
        # Without a boundary, clients and engine are at the same place.
        side = "engine_" if run.side == "engine" and "reached_s" in rows.fieldnames else ""
        finished = [(float(row["reached_s" if side else "arrival_s"]),
                     float(row[f"{side}ttft_ms"]) * 1e-3, float(row[f"{side}e2el_ms"]) * 1e-3,
                     int(row["output_tokens"]))
                    for row in rows
                    if row["status"] == "completed" and float(row["arrival_s"]) >= run.skip_s]
    gaps = {f"itl_{s}": summary[f"{s}_itl_ms"] * 1e-3 for s in STATISTICS} if run.gaps else {}
    blocks = {"kv_blocks": summary["kv_blocks"] + 1}  # with vLLM's null block
    return named_throughput(run, {**measures(finished), **gaps, **simulated_load(run, folder),
                                  **blocks})


def simulate(options, run, label, variant, seed=None):
    """The simulated values of a run. Throws RuntimeError with the run's name and the error."""
    folder = options.out / label.replace(" ", "_") / run.full_name.replace("/", ".")
    folder.mkdir(parents=True, exist_ok=True)
    trace, config = folder / "trace.csv", folder / "experiment.textproto"
    write_trace(run, trace)
    config.write_text(experiment(run, options.cost, trace, variant, seed))
    done = subprocess.run([str(options.binary), "run", str(config), "--out", str(folder / "run"),
                           "--format", "json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{run.full_name}, {label}: {done.stderr.strip()}")
    return simulated_measures(run, folder / "run", json.loads(done.stdout))


def read_split():
    """(pattern, terms, patterns of metrics) of every fit entry of split.textproto."""
    text = (HERE / "split.textproto").read_text()
    return [(re.search(r'run: "([^"]*)"', block).group(1),
             re.search(r'terms: "([^"]*)"', block).group(1),
             (re.search(r'metrics: "([^"]*)"', block) or ["", "*"])[1].split())
            for block in re.findall(r"fit {([^}]*)}", text)]


def part_of(run, metric, split):
    """"fit" if a term that moves the metric was fitted to the run, else "judge"."""
    fitted = any(fnmatch.fnmatch(run.full_name, pattern)
                 and any(fnmatch.fnmatch(metric, moved) for moved in metrics)
                 for pattern, _, metrics in split)
    return "fit" if fitted else "judge"
