"""The stage smoke: does every kernel work at all? Kernels that do not are replaced for later stages.

The program's own kernels and products cannot be replaced: if they fail, one of their tests is run under
compute-sanitizer, and the check ends. Attention kernels can be replaced: without FA3, FA2 computes
prefills; without FA2, or without the kernel on CUDA cores, the kernel for any shape computes everything.
"""
import concurrent.futures
import csv
import time

import references
from check import TIMED_OUT, Failed, Skipped, Stopped
from device_tests import memcheck, outcome

# Name, filter of the device tests, seconds. The first process loads the driver, the second cuBLASLt.
KERNELS = (
    ("own kernels", "*CudaNormTest.AgreesWithTheCpu*:*CudaRopeAppendTest.DoesWhatTheCpuDoes*:"
     "*CudaRowsTest.ActivationsAgreeWithTheCpus*:*CudaSamplingTest.ChoosesTheCpusTokens*:"
     "*CudaAttentionKernelTest.PlansAheadOfTheDevice/generic", 12),
    ("products", "*CudaGemmTest.MatchesSumsInDouble*:"
     "*CudaGemmShapesTest.AreReplayedFromAGraphOncePrepared*:"
     "*CudaSkinnyGemmTest.ARowIsTheSameAloneAndWithOthers*", 12),
    ("fa2", "*CudaAttentionKernelTest.PlansAheadOfTheDevice/fa2:"
     "*CudaAttentionKernelTest.ReplaysOneGraphForChangingDecodes/fa2", 6),
    ("cuda_core", "*CudaAttentionKernelTest.PlansAheadOfTheDevice/cuda_core:"
     "*CudaAttentionKernelTest.ReplaysOneGraphForChangingDecodes/cuda_core", 6),
    ("fa3", "*CudaAttentionKernelTest.PlansAheadOfTheDevice/fa3:"
     "*CudaAttentionTest.OfPrefills/fa3_8_2_128_bf16", 6),
)
ESSENTIAL = ("own kernels", "products")
# The FlashInfer kernels that a choice of attention can use.
USED = {"auto": ("fa2", "cuda_core", "fa3"), "fa3": ("fa2", "cuda_core", "fa3"),
        "fa2": ("fa2", "cuda_core"), "cuda_core": ("fa2", "cuda_core"), "generic": ()}
# The model of a short smoke: heads of Llama-3-8B.
ONE_MODEL = "attention-d128-g4"
SANITIZER_SECONDS = 90


def replacement(attention, failed):
    """The choice of attention that uses none of the failed kernels."""
    broken = set(USED[attention]) & set(failed)
    if not broken:
        return attention
    return "fa2" if broken == {"fa3"} else "generic"


def write_rows(check, rows):
    with (check.out / "smoke.csv").open("w", newline="") as text:
        writer = csv.DictWriter(text, fieldnames=("what", "status", "ms", "attention", "note"))
        writer.writeheader()
        writer.writerows(rows)


def kernel_note(result):
    """The status of a run of tests, and what to know of it."""
    if result["exit_code"] == TIMED_OUT:
        return "fail", f"hangs in {result['ended_in']}"
    if result["exit_code"] != 0:
        return "fail", result.get("ended_in") or ", ".join(result["failed"]) or "cannot run"
    if result["passed"]:
        return "pass", ""
    if result["skipped"]:
        return "skipped", next(iter(result["skipped"].values()))
    return "fail", "there is no such test"


def run_kernel(check, name, chosen, seconds):
    """A row of smoke.csv, and the result of the tests."""
    begin = time.monotonic()
    done = check.call([check.programs["device_test"], f"--gtest_filter={chosen}"], seconds)
    result = outcome(name, done)
    status, note = kernel_note(result)
    with (check.out / "smoke.txt").open("a") as file:
        file.write(f"--- {name}: {chosen}\n{done.stdout}{done.stderr}")
    row = {"what": name, "status": status, "ms": round(1e3 * (time.monotonic() - begin)),
           "attention": "", "note": note}
    print(f"  {line_of(row)}", flush=True)
    return row, result


def line_of(row):
    return f"{row['what']:<24} {row['status']:<8} {row['ms']:>6} ms  {row['note']}".rstrip()


def facts_of(check, rows, lines=()):
    return {"attention": check.attention, "overlap": check.overlap, "rows": rows,
            "lines": [*map(line_of, rows), *lines]}


def stop_with_sanitizer(check, rows, result):
    """Own kernels or products do not work: says why, as far as the sanitizer knows."""
    failed = result.get("ended_in") or (result["failed"] or [""])[0]
    check.begin_stage(SANITIZER_SECONDS)
    told, text = ("not called", "") if failed == "its start" else memcheck(check, failed)
    (check.out / "smoke_memcheck.txt").write_text(text)
    raise Stopped(f"{result['shard']} do not work: {failed}; memcheck: {told}", facts_of(check, rows))


def smoke_kernels(check, rows):
    """Adds a row for each kernel that later stages use, and replaces those that do not work."""
    failed = []
    for name, chosen, seconds in KERNELS:
        if name not in ESSENTIAL and name not in USED[check.attention]:
            continue
        row, result = run_kernel(check, name, chosen, seconds)
        rows.append(row)
        write_rows(check, rows)
        if row["status"] != "fail":
            continue
        if name in ESSENTIAL:
            stop_with_sanitizer(check, rows, result)
        failed.append(name)
    check.attention = replacement(check.attention, failed)


def compare_models(check, folders):
    """Rows of models.csv."""
    def carry_out(folder):
        begin = time.monotonic()
        try:
            found = references.compare(check, folder)
        except (Failed, OSError, ValueError) as error:
            found = references.row(check, folder, str(error))
        return {**found, "ms": round(1e3 * (time.monotonic() - begin))}

    # Most of the time of each is that of its process to start.
    with concurrent.futures.ThreadPoolExecutor(1 if check.quick else 4) as pool:
        return list(pool.map(carry_out, folders))


def smoke_models(check, folders, rows):
    """Adds a row for each model. If some fail only while kernels overlap, turns the overlap off for
    all later stages. Returns the names of those that fail."""
    found = compare_models(check, folders)
    broken = [folder for folder, row in zip(folders, found) if not row["passed"]]
    apart = False
    if broken and check.overlap:
        check.overlap = False
        again = compare_models(check, broken)
        found += again
        apart = all(row["passed"] for row in again)
        check.overlap = not apart
    with (check.out / "models.csv").open("w", newline="") as text:
        writer = csv.DictWriter(text, fieldnames=list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    rows += [{"what": row["model"], "status": "pass" if row["passed"] else "fail", "ms": row["ms"],
              "attention": row["attention"],
              "note": row["wrong"] or f"{row['worst_relative_l2']} of {row['tolerance']}"
                      + ("" if row["overlap"] else ", without overlap")} for row in found]
    write_rows(check, rows)
    return [] if apart else [folder.name for folder in broken]


def is_short(check):
    """Whether the first quarter has checked the same card, so that a model suffices."""
    return bool(check.quarter == 2 and check.previous
                and check.previous["device"] == check.device()["name"]
                and check.previous["stages"].get("smoke", {}).get("status") == "pass")


def smoke(check):
    """The stage."""
    folders, rows, overlapped = check.reference_models(), [], check.overlap
    if is_short(check):
        folders = [folder for folder in folders if folder.name == ONE_MODEL] or folders
    elif check.programs["device_test"] is not None:
        smoke_kernels(check, rows)
    elif not check.quick:
        raise Failed("no cuda_device_test is built")
    if not folders:
        raise Skipped("no reference models are here")
    broken = smoke_models(check, folders, rows)
    agree = len(folders) - len(broken)
    lines = [f"attention {check.attention}; {agree} of {len(folders)} models agree"]
    if overlapped and not check.overlap:
        lines.append("KERNELS DO NOT OVERLAP IN ALL LATER STAGES: models fail with overlap, and "
                     "agree without")
    facts = facts_of(check, rows, lines)
    if broken:
        raise Failed("other results than the reference: " + ", ".join(broken), facts)
    return facts
