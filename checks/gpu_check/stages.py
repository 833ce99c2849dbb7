"""The stages of the check. Each takes a Check, writes its files as results come, and returns facts
for the summary; or raises Failed or Skipped. `lines` are shown in the summary."""
import csv
import json
import sys

from check import HERE, TIMED_OUT, Failed, Skipped, last_line
from device_tests import mended, tests
from devices import RUNS, bar_of, hardware_of
from smoke import smoke

METRICS = ("mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms")
# Policy -> its parameters, and the number of runs.
CONTEXT = "max_model_len: 4608"
POLICIES = {
    "vllm_v1": (f"max_num_batched_tokens: 4096 max_num_seqs: 64 {CONTEXT} async_scheduling: true", 3),
    "sglang": ("max_running_requests: 64 chunked_prefill_size: 4096", 1),
    "vllm_v0": (f"max_num_batched_tokens: 4608 max_num_seqs: 64 {CONTEXT}", 1),
    "sarathi": (f"chunk_size: 512 max_num_seqs: 64 {CONTEXT}", 1),
    "splitfuse": ("max_ragged_batch_size: 768", 1),
    "trtllm": ("max_batch_size: 64 max_num_tokens: 4608", 1),
    "orca": (f"max_bs: 64 {CONTEXT}", 1),
    "static": (f"max_batch_size: 32 {CONTEXT}", 1),
}
# Seconds of `twinserve bench` behind which a measurement of the ceilings still fits.
CEILINGS_SECONDS_MIN = 8


def write_csv(file, rows):
    with file.open("w", newline="") as text:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def hardware(check):
    return hardware_of(check.device()["name"])


def missing_attention(check):
    """The kernels that this build should have for this device; the one for any shape alone would
    tell nothing of speed."""
    names = check.machine["cuda"]["attention"]
    wanted = ["fa2", "cuda_core"] + (["fa3"] if check.device()["compute_major"] == 9 else [])
    return [] if check.quick else [name for name in wanted if name not in names]


def ceilings(check):
    """What the device can do at most, in one line."""
    if check.quick or check.stage_left() < CEILINGS_SECONDS_MIN:
        return []
    told = json.loads(check.twinserve(
        ["doctor", "--device", "cuda", "--measure", "--format", "json"], 20))["cuda"]["ceilings"]
    (check.out / "ceilings.json").write_text(json.dumps(told) + "\n")
    return [f"bf16 product {told['bf16_gemm']['tflops']:.0f} TFLOP/s, copy "
            f"{told['copy']['gb_per_s']:.0f} GB/s"]


def rounded(milliseconds):
    return "" if milliseconds is None else round(milliseconds, 3)


def row_of(entry, device_hardware, context, prefill):
    """A row of bars.csv."""
    length = context if entry["phase"] == "decode" else prefill
    return {"dtype": entry["dtype"], "phase": entry["phase"], "batch": entry["batch"],
            "length": length, "wall_ms": rounded(entry["step_ms"]),
            "device_ms": rounded(entry["device_ms"]),
            **bar_of(device_hardware, entry["phase"], entry["batch"], length),
            "gb_per_s": round(entry["gb_per_s"], 1), "tflops": round(entry["gflops"] * 1e-3, 2)}


def bench_words(check, context, batches, prefill):
    return [check.programs["twinserve"], "bench", "--model", check.model(), "--dummy-weights",
            "--device", "cuda", "--dtype", "bf16", "--context", context, "--batch", batches,
            "--prefill", prefill, "--decode", 4 if check.quick else 16, "--seconds", 1,
            "--format", "json", *check.attention_words()]


def bench(check, context, batches, prefill, rows):
    """Adds steps to rows, those that were measured before a failure too; returns what failed."""
    done = check.call(bench_words(check, context, batches, prefill), 60)
    for line in done.stdout.splitlines():
        try:
            rows.append(row_of(json.loads(line), hardware(check), context, prefill))
        except ValueError:
            pass  # cut off
    if rows:
        write_csv(check.out / "bars.csv", rows)
    if done.returncode == 0:
        return []
    return [f"bench of {batches} x {context} ended with {done.returncode}: "
            f"{last_line(done.stderr)}"]


def line_of_step(row):
    line = f"{row['phase']} {row['batch']} x {row['length']}: {row['wall_ms']} ms"
    if row["device_ms"] != "":
        line += f", on the device {row['device_ms']}"
    if row["predicted_ms"] != "":
        verdict = ("within" if row["predicted_low"] <= row["wall_ms"] <= row["predicted_high"]
                   else "BELOW" if row["wall_ms"] < row["predicted_low"] else "ABOVE")
        line += (f"; {verdict} prediction {row['predicted_ms']} [{row['predicted_low']}, "
                 f"{row['predicted_high']}], floor {row['floor_ms']}")
    return f"{line}; {row['gb_per_s']} GB/s, {row['tflops']} TFLOP/s"


def bars(check):
    """Steps of the sizes that predictions were made of."""
    sizes = ([(16, "1,3", 32)] if check.quick else
             [(1024, "1,32,256", 2048), (4096, "32", 8192)])
    rows, failed = [], []
    for context, batches, prefill in sizes:
        failed += bench(check, context, batches, prefill, rows)
    lines = [line_of_step(row) for row in rows]
    if hardware(check) is None:
        lines.append(f"no predictions were made for {check.device()['name']}")
    try:
        lines += ceilings(check)
    except Failed as error:
        lines.append(f"ceilings: {error}")
    missing = missing_attention(check)
    if missing:
        failed.append(f"this build has no attention by {', '.join(missing)}")
    facts = {"steps": rows, "lines": lines}
    if failed:
        raise Failed("; ".join(failed), facts)
    return facts


def settings_of_run(check, rate):
    """Assignments that make vllm_v1.textproto the run of this device, or a small one."""
    settings = ["cost=profile {}", f"workload.arrivals.rate={rate}"]
    if check.attention != "auto":
        settings.append(f"world.real.attention={check.attention}")
    if hardware(check):
        settings.append(f"system.hardware={hardware(check)}")
    if check.quick:
        settings += [f"system.model={check.model()}/", "workload.requests=6",
                     "workload.shape.prompt={kind: uniform min: 1 max: 12}",
                     "workload.shape.output={kind: uniform min: 2 max: 4}",
                     "system.memory={block_size: 16 blocks_override: 64}",
                     "policy.vllm_v1.max_model_len=128"]
    return [word for setting in settings for word in ("--set", setting)]


def number(value):
    return "-" if value is None else f"{value:.2f}"


def lines_of_run(told, rate, device_hardware):
    """Every metric beside what was predicted in advance, and by validate, for what really came."""
    advance = RUNS.get(device_hardware, {}).get(rate, {})
    lines = [f"{rate} requests a second, replay {'equal' if told['digest_equal'] else 'DIFFERS'}"]
    for metric in METRICS:
        value = told["metrics"][metric]
        lines.append(f"{metric} {number(value['measured'])}, predicted in advance "
                     f"{number(advance.get(metric))}; validate is {number(value['error_percent'])}"
                     " % off")
    steps = told["steps"]["all"]
    return lines + [f"steps: bias {number(steps['bias_percent'])} %, median error "
                    f"{number(steps['median_error_percent'])} %"]


def serve(check):
    """The stage run: vLLM V1 serves Llama-3-8B with random weights; twice as fast in quarter 2."""
    rate = 40 if check.quarter == 2 else 20
    told = json.loads(check.twinserve(
        ["validate", HERE / "vllm_v1.textproto", "--repeats", 1, "--format", "json", "--out",
         check.out / "run", *settings_of_run(check, rate)], 150))
    facts = {"validation": {key: told[key] for key in ("digest_equal", "metrics", "steps")},
             "lines": lines_of_run(told, rate, hardware(check))}
    if not told["digest_equal"]:
        raise Failed("replay decided otherwise", facts)
    return facts


def row_of_policy(policy, told):
    """A row of policies.csv."""
    row = {"policy": policy, "replay": "equal" if told["digest_equal"] else "DIFFERS"}
    for metric in METRICS:
        value = told["metrics"][metric]
        row[metric] = value["measured"]
        row[f"{metric}_predicted"] = value["predicted"]
        row[f"{metric}_error_percent"] = value["error_percent"]
    steps = told["steps"]["all"]
    return {**row, "steps_bias_percent": steps["bias_percent"],
            "steps_median_error_percent": steps["median_error_percent"]}


def line_of_policy(row):
    return (f"{row['policy']}: replay {row['replay']}, TTFT {number(row['mean_ttft_ms'])} ms "
            f"({number(row['mean_ttft_ms_error_percent'])} %), TPOT {number(row['mean_tpot_ms'])} ms "
            f"({number(row['mean_tpot_ms_error_percent'])} %), end to end "
            f"{number(row['mean_e2el_ms'])} ms ({number(row['mean_e2el_ms_error_percent'])} %)")


def policies(check):
    """The workload of `run` under every policy of POLICIES: measured, replayed, predicted."""
    rows, failed = [], []
    for policy, (text, repeats) in list(POLICIES.items())[:1 if check.quick else None]:
        limits = ["--set", f"policy={{{policy} {{{text}}}}}"]
        try:
            told = json.loads(check.twinserve(
                ["validate", HERE / "vllm_v1.textproto", "--repeats", repeats, "--format", "json",
                 "--out", check.out / "policies" / policy, *limits, *settings_of_run(check, 20)],
                75))
        except Failed as error:
            failed.append(f"{policy}: {error}")
            continue
        rows.append(row_of_policy(policy, told))
        write_csv(check.out / "policies.csv", rows)
        if not told["digest_equal"]:
            failed.append(f"{policy}: replay decided otherwise")
    facts = {"policies": rows, "lines": [line_of_policy(row) for row in rows]}
    if failed:
        raise Failed("; ".join(failed), facts)
    return facts


def line_of_nodes(phase, rows):
    """The time of a step's kernels, the gaps between them, and the longest kernels."""
    if not rows:
        return f"{phase}: no kernels"
    name = f"{phase} {rows[0]['batch']} x {rows[0]['length']}"
    by_name = {}
    for row in rows:
        by_name[row["name"]] = by_name.get(row["name"], 0) + float(row["us"])
    longest = sorted(by_name.items(), key=lambda item: -item[1])[:4]
    gaps = sum(float(row["gap_us"] or 0) for row in rows)
    return (f"{name}: {len(rows)} kernels, {sum(by_name.values()) * 1e-3:.3f} ms, gaps "
            f"{gaps * 1e-3:.3f} ms; " + ", ".join(f"{kernel[:40]} {microseconds:.0f} us"
                                                 for kernel, microseconds in longest))


def nodes(check):
    """Time of every kernel of decode and prefill steps, as CUPTI tells it."""
    lines = []
    sizes = ((1, 16, 32), (3, 16, 32)) if check.quick else ((1, 1024, 2048), (32, 4096, 8192))
    for batch, context, prefill in sizes:
        file = check.out / f"nodes_{batch}.csv"
        done = check.call([*bench_words(check, context, batch, prefill), "--kernel-times", file],
                          20)
        if done.returncode != 0:
            absent = check.quick or "CUPTI" in done.stderr
            raise (Skipped if absent else Failed)(f"bench: {last_line(done.stderr)}")
        with file.open(newline="") as text:
            rows = list(csv.DictReader(text))
        lines += [line_of_nodes(phase, [row for row in rows if row["phase"] == phase])
                  for phase in ("prefill", "decode")]
    return {"lines": lines}


def profile(check):
    """Times of operations and steps. A profile that was cut is one of what it has."""
    file = check.out / "profile.csv"
    limits = ["--tokens-max", 32, "--batch-max", 4] if check.quick else []
    done = check.call([check.programs["twinserve"], "profile", "--model", check.model(),
                       "--dummy-weights", "--device", "cuda", "--dtype", "bf16", "--quick",
                       "--rounds", 1, "--out", file, *limits, *check.attention_words()],
                      check.stage_left() - 5)
    if done.returncode not in (0, TIMED_OUT):
        raise Failed(f"profile ended with {done.returncode}, {file.name} is what there is of it: "
                     f"{last_line(done.stderr)}")
    cut = ["profile.csv was cut by the time limit"] if done.returncode == TIMED_OUT else []
    report = check.twinserve(["fit", file, "--out", check.out / "cost.textproto"], 30)
    return {"lines": cut + report.strip().splitlines()[:8]}


def state(check):
    """How the device's speed depends on its recent load (doctor --measure state)."""
    if check.quick:
        raise Skipped("an emulated device has no clock")
    told = json.loads(check.twinserve(["doctor", "--device", "cuda", "--measure", "state",
                                       "--measure-seconds", 15, "--format", "json"],
                                      60))["cuda"]["state"]
    (check.out / "state.json").write_text(json.dumps(told) + "\n")
    return {"lines": told["summary"]}


def peers(check):
    if check.quick:
        raise Skipped("an emulated device is none of PyTorch's")
    out = check.out / "peers.json"
    done = check.call([sys.executable, HERE / "peers.py", check.model(), out], 60)
    if not out.exists():
        absent = "No module named 'torch'" in done.stderr
        raise (Skipped if absent else Failed)(f"peers.py: {last_line(done.stderr)}")
    found = json.loads(out.read_text())
    groups = {}
    for entry in found:  # products of one m, and attention of one backend, share a line
        words = entry["name"].split()
        value = f"{entry['value']:.4g} {entry['unit']}" if "value" in entry else entry["error"][:40]
        key = words[-1] if words[0] == "product" else " ".join(words[:2])
        groups.setdefault(key, []).append(f"{' '.join(words[1:])} {value}")
    return {"measured": sum("value" in entry for entry in found),
            "lines": [f"{key}: {', '.join(values)}" for key, values in groups.items()]}


STAGES = {"smoke": smoke, "bars": bars, "run": serve, "policies": policies, "tests": tests, "mended": mended,
          "nodes": nodes, "profile": profile, "state": state, "peers": peers}
# Quarter -> its seconds, and its stages with their budgets and minimums, in the order of what a
# lost rest would cost. Without a quarter: everything once.
FIRST = {"smoke": (45, 30), "bars": (105, 60), "run": (75, 40), "tests": (115, 25),
         "nodes": (25, 15), "state": (35, 20)}
QUARTERS = {
    1: (395, FIRST),
    2: (235, {"smoke": (45, 8), "mended": (40, 5), "profile": (105, 60), "run": (45, 30),
              "peers": (30, 15)}),
    None: (900, {**FIRST, "policies": (250, 30), "mended": (40, 5), "profile": (105, 60),
                 "peers": (60, 15)}),
}
# With --quick: an emulated device takes longer, and tiny models load at once.
QUICK_BUDGETS, QUICK_MINIMUMS = 4, 0.1
