"""The stages of the check. Each takes a Check, writes its file, and returns facts for the summary;
or raises Failed or Skipped. `lines` are shown in summary.txt."""
import concurrent.futures
import csv
import json
import re
import shutil
import sys

import references
from check import HERE, Failed, Skipped

BENCHMARKS = ("cuda_kernel_benchmark", "cuda_gemm_benchmark", "cuda_attention_benchmark")
POLICIES = ("vllm_v1", "sarathi", "orca")
METRICS = ("mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms", "p99_ttft_ms")
# Milliseconds of a step of Llama-3-8B in bf16 on an H200: sums of the best engines' kernels.
BARS_H200 = {("decode", 1, 1024): 4.9, ("decode", 32, 1024): 6.0, ("decode", 32, 4096): 8.8,
             ("decode", 256, 1024): 14.7, ("prefill", 1, 2048): 43, ("prefill", 1, 8192): 197}


def write_csv(file, rows):
    with file.open("w", newline="") as text:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def first_of_each_suite(device_test, check):
    """A filter that takes one test of every suite: the selection that runs under the sanitizer."""
    listed = check.call([device_test, "--gtest_list_tests"], 20).stdout
    chosen, suite = [], None
    for line in listed.splitlines():
        if not line.startswith(" "):
            suite = line.split("#")[0].strip()
        elif suite:
            chosen.append(suite + line.split("#")[0].strip())
            suite = None
    return ":".join(chosen)


def sanitizer():
    for name in ("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer"):
        if shutil.which(name):
            return shutil.which(name)
    return None


def tests(check):
    device_test = check.programs["device_test"]
    if device_test is None:
        raise (Skipped if check.quick else Failed)("no cuda_device_test is built")
    done = check.call([device_test, "--gtest_brief=1"], 150)
    text = done.stdout + done.stderr
    passed = re.search(r"\[  PASSED  \] (\d+)", text)
    facts = {"tests_passed": int(passed.group(1)) if passed else 0, "exit_code": done.returncode}
    tool = sanitizer()
    if tool:
        chosen = first_of_each_suite(device_test, check)
        checked = check.call([tool, "--tool", "memcheck", "--error-exitcode", "9", device_test,
                              "--gtest_brief=1", f"--gtest_filter={chosen}"], 90)
        text += f"\n--- memcheck of {chosen}\n{checked.stdout}{checked.stderr}"
        facts["memcheck_exit_code"] = checked.returncode
    (check.out / "tests.txt").write_text(text)
    facts["lines"] = [f"{facts['tests_passed']} device tests passed; memcheck: "
                      f"{facts.get('memcheck_exit_code', 'no compute-sanitizer here')}"]
    if done.returncode != 0:
        raise Failed(f"cuda_device_test ended with {done.returncode}", facts)
    if facts.get("memcheck_exit_code", 0) != 0:
        raise Failed("the sanitizer found something, or a test failed under it", facts)
    return facts


def models(check):
    folders = check.reference_models()
    if not folders:
        raise Skipped("no reference models are here")
    cases = [(folder, dtype) for folder in folders for dtype in ("bf16", "fp16")]
    rows, broken = [], []

    def carry_out(case):
        try:
            return references.compare(check, *case)
        except (Failed, OSError, ValueError) as error:
            return {"model": case[0].name, "dtype": case[1], "passed": 0, "worst_relative_l2": "",
                    "tolerance": "", "wrong_tokens": str(error)}

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        rows = [row for row in pool.map(carry_out, cases) if row]
    write_csv(check.out / "models.csv", rows)
    broken = [f"{row['model']} ({row['dtype']})" for row in rows if not row["passed"]]
    facts = {"compared": len(rows), "lines": [f"{len(rows) - len(broken)} of {len(rows)} agree"]}
    if broken:
        raise Failed("other results than the reference: " + ", ".join(broken), facts)
    return facts


def ceilings(check):
    """What the device can do at most; not of an emulated one, which computes nothing fast."""
    if check.quick:
        return None
    told = json.loads(check.twinserve(
        ["doctor", "--device", "cuda", "--measure", "--format", "json"], 60))
    return told["cuda"]["ceilings"]


def kernels(check):
    benchmarks = check.programs["benchmarks"]
    if not benchmarks and check.quick:
        raise Skipped("no benchmarks of kernels are built")
    result = {"ceilings": ceilings(check), "benchmarks": {}}
    failed = []
    for name, program in benchmarks.items():
        done = check.call([program, "--benchmark_format=json", "--benchmark_min_time=0.05"], 60)
        try:
            found = json.loads(done.stdout)["benchmarks"]
        except (ValueError, KeyError):
            failed.append(f"{name} ended with {done.returncode}")
            continue
        kept = [{key: value for key, value in entry.items()
                 if key not in ("family_index", "per_family_instance_index", "run_name", "run_type",
                                "repetitions", "repetition_index", "threads")} for entry in found]
        result["benchmarks"][name] = kept
        failed += [f"{name}: {entry['name']}" for entry in found if entry.get("error_occurred")]
    (check.out / "kernels.json").write_text(json.dumps(result, indent=0) + "\n")
    top = result["ceilings"] or {}
    facts = {"ceilings": top, "benchmarks": {key: len(value) for key, value
                                             in result["benchmarks"].items()}}
    if top:
        facts["lines"] = [f"bf16 product {top['bf16_gemm']['tflops']:.0f} TFLOP/s, copy "
                          f"{top['copy']['gb_per_s']:.0f} GB/s"]
    if failed:
        raise Failed("; ".join(failed[:5]), facts)
    if not benchmarks:
        raise Failed("no benchmarks of kernels are built", facts)
    return facts


def bench(check, dtype, context, batches, prefill):
    """Steps of one dtype: rows of phase, batch, length, milliseconds and rates."""
    told = check.twinserve(["bench", "--model", check.model(), "--dummy-weights", "--device", "cuda",
                            "--dtype", dtype, "--context", context, "--batch", batches,
                            "--prefill", prefill, "--decode", 4 if check.quick else 16,
                            "--seconds", 1, "--format", "json"], 90)
    rows = []
    for line in told.splitlines():
        entry = json.loads(line)
        decode = entry["phase"] == "decode"
        per_step = entry["batch"] if decode else entry["tokens"]
        length = context if decode else prefill
        bar = BARS_H200.get((entry["phase"], entry["batch"], length)) if dtype == "bf16" else None
        rows.append({"dtype": dtype, "phase": entry["phase"], "batch": entry["batch"],
                     "length": length,
                     "milliseconds": round(1e3 * per_step / entry["tokens_per_s"], 3),
                     "bar_h200": bar, "gb_per_s": round(entry["gb_per_s"], 1),
                     "tflops": round(entry["gflops"] * 1e-3, 2)})
    return rows


def step_rows(check):
    """Steps of the sizes that the bars are for, and some in fp8 where the device has it."""
    if check.quick:
        return bench(check, "bf16", 16, "1,3", 32)
    rows = bench(check, "bf16", 1024, "1,32,256", 2048) + bench(check, "bf16", 4096, "32", 8192)
    device = check.machine["cuda"]["devices"][0]
    if device["compute_major"] == 9:
        rows += bench(check, "fp8", 1024, "1,32", 2048)
    return rows


def profile(check):
    file = check.out / "profile.csv"
    file.unlink(missing_ok=True)
    limits = ["--tokens-max", 32, "--batch-max", 4] if check.quick else []
    check.twinserve(["profile", "--model", check.model(), "--dummy-weights", "--device", "cuda",
                     "--dtype", "bf16", "--quick", "--rounds", 1, "--out", file, *limits], 150)
    report = check.twinserve(["fit", file, "--out", check.scratch / "cost.textproto"], 30)
    steps = step_rows(check)
    lines = report.strip().splitlines()
    for row in steps:
        bar = f", bar on an H200 {row['bar_h200']}" if row["bar_h200"] else ""
        lines.append(f"{row['dtype']} {row['phase']} {row['batch']} x {row['length']}: {row['milliseconds']} ms, "
                     f"{row['gb_per_s']} GB/s, {row['tflops']} TFLOP/s{bar}")
    return {"steps": steps, "lines": lines}


def cost_of(check):
    """Words that say which cost model predicts: the profile's, where it was measured here."""
    fitted = check.scratch / "cost.textproto"
    measured = check.out / "profile.csv"
    if not fitted.exists() and measured.exists():
        check.twinserve(["fit", measured, "--out", fitted], 30)
    if fitted.exists():
        return ["--set", f"cost.fitted.path={fitted}"], "fitted"
    return ["--set", "cost=roofline {}"], "roofline"


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


def e2e(check):
    cost, kind = cost_of(check)
    rows, differs = [], []
    for policy in POLICIES:
        words = ["validate", HERE / f"{policy}.textproto", "--repeats", 1, "--format", "json",
                 "--out", check.scratch / f"{policy}.validation", *cost]
        if check.quick:
            name = {"orca": "orca", "sarathi": "sarathi"}.get(policy, policy)
            words += [*small(check), "--set", f"policy.{name}.max_model_len=128"]
        told = json.loads(check.twinserve(words, 100))
        row = {"policy": policy, "replay": "equal" if told["digest_equal"] else "DIFFERS",
               "cost": kind}
        for metric in METRICS:
            value = told["metrics"][metric]
            row[metric] = value["measured"]
            row[f"{metric}_error_percent"] = value["error_percent"]
        row["steps_median_error_percent"] = told["steps"]["all"]["median_error_percent"]
        row["steps_bias_percent"] = told["steps"]["all"]["bias_percent"]
        rows.append(row)
        write_csv(check.out / "e2e.csv", rows)
        if not told["digest_equal"]:
            differs.append(policy)
    lines = [f"{row['policy']}: replay {row['replay']}, TTFT {number(row['mean_ttft_ms'])} ms "
             f"(predicted {number(row['mean_ttft_ms_error_percent'])} % off), TPOT "
             f"{number(row['mean_tpot_ms'])} ms ({number(row['mean_tpot_ms_error_percent'])} % off)"
             for row in rows]
    facts = {"runs": rows, "lines": lines}
    if differs:
        raise Failed("replay decided otherwise: " + ", ".join(differs), facts)
    return facts


def peers(check):
    have = check.call([sys.executable, "-c", "import torch; assert torch.cuda.is_available()"], 60)
    if have.returncode != 0:
        raise Skipped("no PyTorch with CUDA is here")
    out = check.out / "peers.json"
    done = check.call([sys.executable, HERE / "peers.py", check.model(), out], 120,
                      {"HF_HUB_OFFLINE": "1"})
    if not out.exists():
        raise Failed("peers.py: " + (done.stderr.strip().splitlines() or ["nothing said"])[-1])
    found = json.loads(out.read_text())
    lines = [f"{entry['name']}: " + (f"{entry['value']:.4g} {entry['unit']}" if "value" in entry
                                     else entry["error"]) for entry in found]
    return {"measured": sum("value" in entry for entry in found), "lines": lines}


STAGES = {"tests": tests, "models": models, "kernels": kernels, "profile": profile, "e2e": e2e,
          "peers": peers}
