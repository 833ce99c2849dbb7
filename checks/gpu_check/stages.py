"""The stages of the check. Each takes a Check, writes its files as results come, and returns facts
for the summary; or raises Failed or Skipped. `lines` are shown in the summary."""
import csv
import json
import sys

from check import HERE, TIMED_OUT, Failed, Skipped, last_line
from device_tests import mended, tests
from devices import bar_of, hardware
from power import power
from serving import loads, models, policies, serve
from smoke import smoke
from tables import write_csv

# Seconds of `twinserve bench` behind which a measurement of the ceilings still fits.
CEILINGS_SECONDS_MIN = 8


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


def bench_words(check, context, batches, prefill, dtype="bf16"):
    return [check.programs["twinserve"], "bench", "--model", check.model(), "--dummy-weights",
            "--device", "cuda", "--dtype", dtype, "--context", context, "--batch", batches,
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


# Format of weights, requests that decode together, tokens in the cache, tokens of the prompt.
NODES = (("bf16", 1, 1024, 2048), ("bf16", 32, 4096, 8192), ("fp8", 32, 1024, 2048),
         ("int4", 32, 1024, 2048))
QUICK_NODES = (("bf16", 1, 16, 32), ("bf16", 3, 16, 32))


def nodes(check):
    """Time of every kernel of decode and prefill steps, as CUPTI tells it."""
    lines = []
    for dtype, batch, context, prefill in QUICK_NODES if check.quick else NODES:
        file = check.out / f"nodes_{dtype}_{batch}.csv"
        done = check.call([*bench_words(check, context, batch, prefill, dtype), "--kernel-times",
                           file], 20)
        if done.returncode != 0:
            absent = check.quick or "CUPTI" in done.stderr
            raise (Skipped if absent else Failed)(f"bench: {last_line(done.stderr)}")
        with file.open(newline="") as text:
            rows = list(csv.DictReader(text))
        lines += [f"{dtype} " + line_of_nodes(phase, [row for row in rows if row["phase"] == phase])
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


def values_of_peer(check, script, seconds):
    """What a program of this folder that needs PyTorch measured, written to a file of its name."""
    if check.quick:
        raise Skipped("an emulated device is none of PyTorch's")
    out = check.out / f"{script}.json"
    done = check.call([sys.executable, HERE / f"{script}.py", check.model(), out], seconds)
    if not out.exists():
        absent = "No module named" in done.stderr
        raise (Skipped if absent else Failed)(f"{script}.py: {last_line(done.stderr)}")
    return json.loads(out.read_text())


def text_of_value(entry):
    return f"{entry['value']:.4g} {entry['unit']}" if "value" in entry else entry["error"][:40]


def peers(check):
    """Products and attention of PyTorch."""
    found = values_of_peer(check, "peers", 60)
    groups = {}
    for entry in found:  # products of one m, and attention of one backend, share a line
        words = entry["name"].split()
        key = words[-1] if words[0] == "product" else " ".join(words[:2])
        groups.setdefault(key, []).append(f"{' '.join(words[1:])} {text_of_value(entry)}")
    return {"measured": sum("value" in entry for entry in found),
            "lines": [f"{key}: {', '.join(values)}" for key, values in groups.items()]}


def transformers(check):
    """Steps of Hugging Face transformers, of the sizes of `bars`."""
    found = values_of_peer(check, "transformers_peer", 100)
    return {"measured": sum("value" in entry for entry in found),
            "lines": [f"{entry['name']}: {text_of_value(entry)}" for entry in found]}


STAGES = {"smoke": smoke, "bars": bars, "run": serve, "policies": policies, "loads": loads,
          "models": models, "tests": tests, "mended": mended, "nodes": nodes, "profile": profile,
          "state": state, "power": power, "peers": peers, "transformers": transformers}
# Quarter -> its seconds, and its stages with their budgets and minimums, in the order of what a
# lost rest would cost. Without a quarter: everything once.
FIRST = {"smoke": (45, 30), "bars": (105, 60), "run": (75, 40), "tests": (115, 25),
         "nodes": (25, 15), "state": (35, 20)}
QUARTERS = {
    1: (395, FIRST),
    2: (235, {"smoke": (45, 8), "mended": (40, 5), "profile": (105, 60), "run": (45, 30),
              "peers": (30, 15)}),
    None: (1500, {**FIRST, "policies": (250, 30), "loads": (150, 30), "models": (300, 40),
                  "mended": (40, 5), "profile": (105, 60), "power": (120, 15),
                  "peers": (60, 15), "transformers": (100, 25)}),
}
# With --quick: an emulated device takes longer, and tiny models load at once.
QUICK_BUDGETS, QUICK_MINIMUMS = 4, 0.1
