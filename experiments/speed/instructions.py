"""Instructions of the simulator, counted by callgrind: of an engine step, and of whole runs.

callgrind shows the program a processor of its own (Haswell, with AVX2 and without AVX-512) on each
host with AVX2, so that a count depends on the program, its compiler and its libraries alone.
"""
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import typing

from markdown import print_headings, print_line

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "instructions.csv"
TOLERANCE = 0.03
CALLS_TOLERANCE = 0.01  # of a call a step
BURST = ("workload.arrivals.kind=all_at_once", "workload.arrivals.rate=0")
GROWTH_MAX = 1.05
MEMORY_MIB_MAX = 16
# The shorter run of these cases has one request, and counts by itself.
STARTS = {"vllm_v1": "start", "server": "start_profile"}
# Answers of the longer run of a decode case, by running requests.
DECODE_TOKENS = {16: 41_000, 128: 17_000, 512: 5_000}
INSTRUCTIONS = "instructions a step"
# Calls of functions that a fast step avoids; nothing else shows when they come back.
COUNTED_CALLS = {
    "policy calls a step": re.compile(r"twin::.*::Plan\(twin::StepBuilder&\)"),
    "looks at arrivals a step": re.compile(r"twin::.*GeneratedSource::Peek\(\)"),
    "allocations a step": re.compile(r"malloc|aligned_alloc|posix_memalign|calloc|realloc")}


class Run(typing.NamedTuple):
    """One run under callgrind: an experiment of this folder and what is set in it."""
    experiment: str
    requests: int
    settings: tuple = ()


class Case(typing.NamedTuple):
    """A run, and the shorter run that is taken off it. The test compares quick cases."""
    whole: Run
    less: Run
    quick: bool = False


class Count(typing.NamedTuple):
    instructions: int
    calls: dict
    libraries: int
    summary: dict
    provenance: dict


def decode_case(running, settings, quick):
    """Batches of equal answers, one short and one long: the difference has decode steps alone.

    The start of a run varies by 0.1 million instructions with the layout of its heap.
    """
    fixed = (f"workload.arrivals.users={running}", f"policy.vllm_v1.max_num_seqs={running}",
             "policy.vllm_v1.max_num_batched_tokens=65536", *settings)
    return Case(*(Run("_batch", running, (*fixed, f"workload.shape.output.value={tokens}"))
                  for tokens in (DECODE_TOKENS[running], 1000)), quick)


def cases_of(policies):
    """The cases by name."""
    cached = ("policy.vllm_v1.async_scheduling=true", "policy.vllm_v1.enable_prefix_caching=true")
    cases = {policy: Case(Run(policy, 10_000), Run(policy, 1),
                          policy in ("orca", "vllm_v1", "sarathi"))
             for policy in policies}
    for prefix, settings in {"decode": (), "decode_cached": cached}.items():
        for running in DECODE_TOKENS:
            cases[f"{prefix}_{running}"] = decode_case(running, settings,
                                                       running != 128 and not settings)
    for name, requests in {"mix": 2000, "sessions": 3000, "server": 4000}.items():
        cases[name] = Case(Run(f"_{name}", requests), Run(f"_{name}", 1), True)
    return cases


def read_profile(file):
    """Instructions, counted calls and number of libraries in an output of callgrind."""
    names, calls, libraries, instructions, callee = {}, dict.fromkeys(COUNTED_CALLS, 0), set(), 0, ""
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            key, _, value = line.rstrip("\n").partition("=")
            if key in ("fn", "cfn"):
                number, _, name = value.partition(" ")
                callee = names.setdefault(number, name)
            elif key == "calls":
                for counted, pattern in COUNTED_CALLS.items():
                    if pattern.fullmatch(callee):
                        calls[counted] += int(value.split()[0])
            elif key in ("ob", "cob"):
                libraries.add(value.partition(" ")[0])
            elif line.startswith(("summary:", "totals:")):
                instructions = int(line.split()[1])
    return instructions, calls, len(libraries)


def count(binary, run, out):
    """Runs the program under callgrind, in an environment that is always the same."""
    valgrind = shutil.which("valgrind") or sys.exit("measure: valgrind is not installed")
    profile, run_out = out / "callgrind.out", out / "run"
    shutil.rmtree(run_out, ignore_errors=True)  # to replace a run takes instructions, too
    command = [valgrind, "--tool=callgrind", f"--callgrind-out-file={profile}", binary, "run",
               HERE / f"{run.experiment}.textproto", "--out", run_out, "--jobs", "1"]
    for setting in (f"workload.requests={run.requests}", *run.settings):
        command += ["--set", setting]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False, env={"PATH": os.defpath})
    if done.returncode != 0:
        sys.exit(f"measure: {run.experiment}: {done.stderr.strip()}")
    result = Count(*read_profile(profile), json.loads((run_out / "summary.json").read_text()),
                   json.loads((run_out / "provenance.json").read_text()))
    if result.summary["preemptions"] != 0 and run.experiment == "_batch":
        sys.exit(f"measure: {run.experiment}: {result.summary['preemptions']} preemptions; the "
                 "cache must hold the batch")
    return result


def rows_of(name, whole, less):
    """Values by (name, unit) of a case."""
    steps = whole.summary["steps"] - less.summary["steps"]
    rows = {(name, INSTRUCTIONS): round((whole.instructions - less.instructions) / steps, 1)}
    for unit, calls in whole.calls.items():
        rows[name, unit] = round((calls - less.calls[unit]) / steps, 4)
    return rows


def further_rows(rows):
    """The cost of a further running request, from 16 to 512."""
    return {(prefix, "instructions a step and further request"):
            round((rows[f"{prefix}_512", INSTRUCTIONS] - rows[f"{prefix}_16", INSTRUCTIONS]) / 496, 2)
            for prefix in ("decode", "decode_cached")
            if {(f"{prefix}_512", INSTRUCTIONS), (f"{prefix}_16", INSTRUCTIONS)} <= rows.keys()}


def start_rows(name, one):
    """What a run of one request costs."""
    return {(name, "instructions"): one.instructions, (name, "libraries"): one.libraries}


def versions(provenance):
    """What counts depend on, beside the program."""
    valgrind = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True)
    return {("compiler", "version"): provenance["compiler"],
            ("build", "version"): provenance["build_type"],
            ("C library", "version"): os.confstr("CS_GNU_LIBC_VERSION"),
            ("callgrind", "version"): valgrind.stdout.strip()}


def read_table(file):
    with file.open(newline="", encoding="utf-8") as lines:
        return {(row["name"], row["unit"]): row["value"] for row in csv.DictReader(lines)}


def write_table(rows, file):
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["name", "value", "unit"])
        writer.writerows([name, value, unit] for (name, unit), value in rows.items())


def shown(value):
    return f"{value:,.4g}" if value < 100 else f"{value:,.0f}"


def print_row(name, unit, rows, before):
    """Markdown: a value beside that of the table, and the counted calls of the case."""
    value, old = rows[name, unit], float(before.get((name, unit), "nan"))
    change = f"{100 * (value / old - 1):+.1f} %" if old > 0 else "-"
    calls = [f"{rows[name, counted]:.3f}" if (name, counted) in rows else "-"
             for counted in COUNTED_CALLS]
    print_line([name, unit, shown(old) if old > 0 else "-", shown(value), change, *calls])


def measure_rows(binary, cases, before, out):
    """Counts the cases, prints them, and returns their rows and the provenance of a run."""
    print_headings(["case", "unit", "table", "now", "change", *COUNTED_CALLS])
    rows, provenance = {}, None
    for name, case in cases.items():
        whole, less = (count(binary, run, out) for run in (case.whole, case.less))
        provenance = whole.provenance
        rows |= rows_of(name, whole, less)
        print_row(name, INSTRUCTIONS, rows, before)
        if name in STARTS:
            fresh = start_rows(STARTS[name], less)
            rows |= fresh
            for key in fresh:
                print_row(*key, rows, before)
    further = further_rows(rows)
    for key in further:
        print_row(*key, further, before)
    return rows | further, provenance


def failures(rows, before):
    """What differs from the table by more than the tolerance."""
    for key, value in rows.items():
        old = float(before.get(key, "nan"))
        if not abs(value - old) <= max(TOLERANCE * abs(old), CALLS_TOLERANCE):
            yield f"{key[0]}: {shown(value)} {key[1]}, the table has {shown(old)}"


def reason_to_skip(binary, run, table, out):
    """Why counts cannot be compared with the table, if they cannot."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    now = versions(count(binary, run, out).provenance)
    return "; ".join(f"the {name} is {version}, the table is of {table.get((name, unit))}"
                     for (name, unit), version in now.items()
                     if table.get((name, unit)) != version)


def check(binary, policies, out):
    """Compares the quick cases with the table. Exit code 5: skipped."""
    table = read_table(TABLE)
    quick = {name: case for name, case in cases_of(policies).items() if case.quick}
    reason = reason_to_skip(binary, quick["vllm_v1"].less, table, out)
    if reason:
        print(f"measure: skipped: {reason}")
        sys.exit(5)
    wrong = list(failures(measure_rows(binary, quick, table, out)[0], table))
    if wrong:
        sys.exit("\n".join([*wrong, "measure: if this is meant: experiments/speed/measure "
                                    "instructions --update"]))


def measure(binary, policies, names, against, out):
    """Counts the named cases, or all, and writes OUT/instructions.csv."""
    cases = cases_of(policies)
    unknown = [name for name in names or [] if name not in cases]
    if unknown:
        sys.exit(f"measure: no case '{unknown[0]}'; allowed: {', '.join(cases)}")
    before = read_table(against) if against.is_file() else {}
    rows, provenance = measure_rows(
        binary, {name: case for name, case in cases.items() if not names or name in names}, before,
        out)
    file = out / "instructions.csv"
    write_table(versions(provenance) | rows, file)
    print(f"wrote {file}\n", flush=True)
    return file


def growth(binary, out):
    """The cost of a request from 10,000 to 100,000 requests, spread out and all at once."""
    print_headings(["arrivals", "instructions a request of 10,000", "of 100,000", "growth"])
    for name, settings in {"spread out": (), "all at once": BURST}.items():
        counts = {n: count(binary, Run("vllm_v1", n, settings), out) for n in (1, 10_000, 100_000)}
        few, many = ((counts[n].instructions - counts[1].instructions) / (n - 1)
                     for n in (10_000, 100_000))
        print_line([name, shown(few), shown(many), f"{many / few:.3f} (at most {GROWTH_MAX})"])
