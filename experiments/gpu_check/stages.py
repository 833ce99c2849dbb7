"""The stages of the check. Each takes a Check, writes its files as results come, and returns facts
for the summary; or raises Failed or Skipped. `lines` are shown in summary.txt."""
import concurrent.futures
import csv
import json
import shutil
import sys

import references
from check import HERE, Failed, Skipped, last_line
from device_tests import tests

BENCHMARKS = ("cuda_gemm_benchmark", "cuda_attention_benchmark", "cuda_kernel_benchmark")
# Formats of weights as bench names them, and with what options.
FORMATS = {"bf16": ("bf16",), "fp8": ("fp8",), "fp8 fast": ("fp8", "--fp8-fast-accumulation")}
METRICS = ("mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms", "p99_ttft_ms")
# Milliseconds of a step of Llama-3-8B in bf16 on an H200: sums of the best engines' kernels.
BARS_H200 = {("decode", 1, 1024): 4.9, ("decode", 32, 1024): 6.0, ("decode", 32, 4096): 8.8,
             ("decode", 256, 1024): 14.7, ("prefill", 1, 2048): 43, ("prefill", 1, 8192): 197}


def write_csv(file, rows):
    with file.open("w", newline="") as text:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def device(check):
    return check.machine["cuda"]["devices"][0]


def require_attention(check):
    """The kernels that serve attention here; one for any shape alone would tell nothing of speed."""
    names = check.machine["cuda"]["attention"]
    wanted = ["fa2", "cuda_core"] + (["fa3"] if device(check)["compute_major"] == 9 else [])
    missing = [name for name in wanted if name not in names]
    if missing and not check.quick:
        raise Failed(f"this build has no attention by {', '.join(missing)}, only {', '.join(names)}")
    return names


def ceilings(check):
    """What the device can do at most; not of an emulated one, which computes nothing fast."""
    if check.quick:
        return None
    told = json.loads(check.twinserve(
        ["doctor", "--device", "cuda", "--measure", "--format", "json"], 60))
    return told["cuda"]["ceilings"]


def row_of(entry, dtype, context, prefill):
    """A row of bars.csv."""
    decode = entry["phase"] == "decode"
    per_step = entry["batch"] if decode else entry["tokens"]
    length = context if decode else prefill
    bar = BARS_H200.get((entry["phase"], entry["batch"], length)) if dtype == "bf16" else None
    return {"dtype": dtype, "phase": entry["phase"], "batch": entry["batch"], "length": length,
            "milliseconds": round(1e3 * per_step / entry["tokens_per_s"], 3), "bar_h200": bar,
            "gb_per_s": round(entry["gb_per_s"], 1), "tflops": round(entry["gflops"] * 1e-3, 2)}


def bench(check, dtype, context, batches, prefill, rows):
    """Adds steps of one of FORMATS to rows, those that were measured before a failure too."""
    done = check.call([check.programs["twinserve"], "bench", "--model", check.model(),
                       "--dummy-weights", "--device", "cuda", "--dtype", *FORMATS[dtype],
                       "--context", context, "--batch", batches, "--prefill", prefill, "--decode", 4 if check.quick else 16,
                       "--seconds", 1, "--format", "json"], 120)
    for line in done.stdout.splitlines():
        try:
            rows.append(row_of(json.loads(line), dtype, context, prefill))
        except ValueError:
            pass  # cut off
    if rows:
        write_csv(check.out / "bars.csv", rows)
    if done.returncode != 0:
        raise Failed(f"bench of {dtype} ended with {done.returncode}: {last_line(done.stderr)}",
                     {"steps": rows, "lines": lines_of_steps(rows)})


def lines_of_steps(rows):
    lines = []
    for row in rows:
        bar = f", bar on an H200 {row['bar_h200']}" if row["bar_h200"] else ""
        lines.append(f"{row['dtype']} {row['phase']} {row['batch']} x {row['length']}: "
                     f"{row['milliseconds']} ms, {row['gb_per_s']} GB/s, {row['tflops']} TFLOP/s{bar}")
    return lines


def bars(check):
    """Steps of the sizes that the bars are for, and some in fp8, summed accurately, and fast where
    the device multiplies fp8 matrices."""
    attention = require_attention(check)
    rows = []
    if check.quick:
        bench(check, "bf16", 16, "1,3", 32, rows)
        bench(check, "fp8 fast", 16, "1", 32, rows)
    else:
        bench(check, "bf16", 1024, "1,32,256", 2048, rows)
        bench(check, "bf16", 4096, "32", 8192, rows)
        bench(check, "fp8", 1024, "1,32", 2048, rows)
        if device(check)["compute_major"] == 9:
            bench(check, "fp8 fast", 1024, "1,32", 2048, rows)
    top = ceilings(check)
    lines = lines_of_steps(rows)
    if top:
        lines.append(f"bf16 product {top['bf16_gemm']['tflops']:.0f} TFLOP/s, copy "
                     f"{top['copy']['gb_per_s']:.0f} GB/s")
    return {"attention": attention, "ceilings": top, "steps": rows, "lines": lines}


def models(check):
    folders = check.reference_models()
    if not folders:
        raise Skipped("no reference models are here")
    cases = [(folder, dtype) for folder in folders for dtype in ("bf16", "fp16")]
    rows = []

    def carry_out(case):
        try:
            return references.compare(check, *case)
        except (Failed, OSError, ValueError) as error:
            return references.row(*case, str(error))

    # Most of the time of each is that of its process to start.
    with concurrent.futures.ThreadPoolExecutor(1 if check.quick else 4) as pool:
        for row in pool.map(carry_out, cases):
            rows.append(row)
            write_csv(check.out / "models.csv", rows)
    broken = [f"{row['model']} ({row['dtype']})" for row in rows if not row["passed"]]
    served = sorted({row["attention"] for row in rows})
    facts = {"compared": len(rows), "attention": served,
             "lines": [f"{len(rows) - len(broken)} of {len(rows)} agree; attention by "
                       + ", ".join(served)]}
    if broken:
        raise Failed("other results than the reference: " + ", ".join(broken), facts)
    return facts


def kept(entry):
    """Of a benchmark's result, what says something."""
    name = entry["name"].replace("/iterations:1/manual_time", "")
    return {"name": name, **{key: value for key, value in entry.items() if key not in (
        "name", "family_index", "per_family_instance_index", "run_name", "run_type", "repetitions",
        "repetition_index", "threads", "iterations", "cpu_time")}}


def read_benchmarks(text):
    """The results of a benchmark's JSON, those before the end of one that was cut off too."""
    begin = text.find('"benchmarks": [')
    entries, decoder, at = [], json.JSONDecoder(), text.find("{", begin)
    while begin >= 0 and at >= 0:
        try:
            entry, end = decoder.raw_decode(text, at)
        except ValueError:
            break
        entries.append(kept(entry))
        at = text.find("{", end)
    return entries


def kernels(check):
    benchmarks = check.programs["benchmarks"]
    if not benchmarks:
        raise (Skipped if check.quick else Failed)("no benchmarks of kernels are built")
    found, failed = {}, []
    for name, program in benchmarks.items():
        done = check.call([program, "--benchmark_format=json"], 90)
        found[name] = read_benchmarks(done.stdout)
        (check.out / "kernels.json").write_text(json.dumps(found, indent=0) + "\n")
        if done.returncode != 0:
            failed.append(f"{name} ended with {done.returncode} after {len(found[name])} results: "
                          f"{last_line(done.stderr)}")
        failed += [f"{name}: {entry['name']}: {entry.get('error_message')}"
                   for entry in found[name] if entry.get("error_occurred")]
    facts = {"benchmarks": {key: len(value) for key, value in found.items()},
             "lines": [f"{name}: {len(entries)} results" for name, entries in found.items()]}
    if failed:
        raise Failed("; ".join(failed[:5]), facts)
    return facts


def profile(check):
    file = check.out / "profile.csv"
    file.unlink(missing_ok=True)
    limits = ["--tokens-max", 32, "--batch-max", 4] if check.quick else []
    done = check.call([check.programs["twinserve"], "profile", "--model", check.model(),
                       "--dummy-weights", "--device", "cuda", "--dtype", "bf16", "--quick",
                       "--rounds", 1, "--out", file, *limits], 170)
    if done.returncode != 0:
        raise Failed(f"profile ended with {done.returncode}, {file.name} is what there is of it: "
                     f"{last_line(done.stderr)}")
    report = check.twinserve(["fit", file, "--out", check.out / "cost.textproto"], 30)
    lines = report.strip().splitlines()
    if (check.out / "runs/vllm_v1/record.pb").exists():
        # The run of the stage e2e, predicted again.
        row = validated(check, "vllm_v1", ["--runs", check.out / "runs/vllm_v1"])
        lines.append("with this profile, " + line_of_run(row))
    return {"lines": lines}


def cost_of(check):
    """Words that say which cost model predicts: the profile's, where it was measured here."""
    fitted = check.out / "cost.textproto"
    if fitted.exists():
        return ["--set", f"cost.fitted.path={fitted}"], "fitted"
    return ["--set", "cost=profile {}"], "tables of the device"


def small(check):
    """The same experiment, small enough for an emulated device."""
    words = []
    for assignment in (f"system.model={check.model()}/", "workload.requests=6",
                       "workload.shape.prompt={kind: uniform min: 1 max: 12}",
                       "workload.shape.output={kind: uniform min: 2 max: 4}",
                       "system.memory={block_size: 16 blocks_override: 64}"):
        words += ["--set", assignment]
    return words


def number(value):
    return "-" if value is None else f"{value:.2f}"


def line_of_run(row):
    return (f"{row['policy']}: replay {row['replay']}, TTFT {number(row['mean_ttft_ms'])} ms "
            f"(predicted {number(row['mean_ttft_ms_error_percent'])} % off), TPOT "
            f"{number(row['mean_tpot_ms'])} ms ({number(row['mean_tpot_ms_error_percent'])} % off), "
            f"predicted by {row['cost']}")


def keep_run(check, validation, policy):
    """What a run can be predicted from again."""
    kept_run = check.out / "runs" / policy
    for real in sorted(validation.glob("real_*"))[:1]:
        shutil.rmtree(kept_run, ignore_errors=True)
        shutil.copytree(real, kept_run, ignore=shutil.ignore_patterns("trace.pftrace"))


def validated(check, policy, words):
    """Runs or re-reads an experiment, predicts it, and returns a row of e2e.csv, which it is added to."""
    cost, kind = cost_of(check)
    folder = check.scratch / f"{policy}.{len(list(check.scratch.iterdir()))}"
    command = ["validate", HERE / f"{policy}.textproto", *words, "--format", "json", "--out", folder,
               *cost]
    if check.quick:
        command += [*small(check), "--set", f"policy.{policy}.max_model_len=128"]
    told = json.loads(check.twinserve(command, 150))
    if "--runs" not in words:
        keep_run(check, folder, policy)
    row = {"policy": policy, "replay": "equal" if told["digest_equal"] else "DIFFERS", "cost": kind}
    for metric in METRICS:
        value = told["metrics"][metric]
        row[metric] = value["measured"]
        row[f"{metric}_error_percent"] = value["error_percent"]
    row["steps_median_error_percent"] = told["steps"]["all"]["median_error_percent"]
    row["steps_bias_percent"] = told["steps"]["all"]["bias_percent"]
    check.runs.append(row)
    write_csv(check.out / "e2e.csv", check.runs)
    return row


def serve(check, policies):
    rows = [validated(check, policy, ["--repeats", 1]) for policy in policies]
    facts = {"runs": rows, "lines": [line_of_run(row) for row in rows]}
    differs = [row["policy"] for row in rows if row["replay"] != "equal"]
    if differs:
        raise Failed("replay decided otherwise: " + ", ".join(differs), facts)
    return facts


def e2e(check):
    return serve(check, ["vllm_v1"])


def policies(check):
    return serve(check, ["sarathi", "orca"])


def state(check):
    """How the device's speed depends on its recent load (doctor --measure state)."""
    if check.quick:
        raise Skipped("an emulated device has no clock")
    told = json.loads(check.twinserve(["doctor", "--device", "cuda", "--measure", "state",
                                       "--format", "json"], 170))["cuda"]["state"]
    (check.out / "state.json").write_text(json.dumps(told) + "\n")
    return {"lines": told["summary"]}


def peers(check):
    have = check.call([sys.executable, "-c", "import torch; assert torch.cuda.is_available()"], 60)
    if have.returncode != 0:
        raise Skipped("no PyTorch with CUDA is here")
    out = check.out / "peers.json"
    done = check.call([sys.executable, HERE / "peers.py", check.model(), out], 170,
                      {"HF_HUB_OFFLINE": "1"})
    if not out.exists():
        raise Failed("peers.py: " + (done.stderr.strip().splitlines() or ["nothing said"])[-1])
    found = json.loads(out.read_text())
    lines = [f"{entry['name']}: " + (f"{entry['value']:.4g} {entry['unit']}" if "value" in entry
                                     else entry["error"]) for entry in found]
    return {"measured": sum("value" in entry for entry in found), "lines": lines}


# In the order of what matters most, with the seconds that each may take at most.
STAGES = {"bars": (bars, 230), "tests": (tests, 300), "e2e": (e2e, 160), "profile": (profile, 240),
          "state": (state, 180), "models": (models, 200), "kernels": (kernels, 220),
          "policies": (policies, 200), "peers": (peers, 180)}
# Three calls of less than ten minutes each, on a machine that is lent for so long at a time.
CALLS = {"1": (("bars", "tests"), 520), "2": (("models", "profile", "e2e", "state"), 560),
         "3": (("kernels", "policies", "peers"), 560)}
