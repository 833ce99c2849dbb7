#!/usr/bin/env python3
"""Writes docs/errors.md, the numbers of docs/scope.md and history.csv from tables of the checks.

Usage: checks/errors_page.py [--check] [--root DIR]

Reads fidelity/expected, claims/expected and gpu_check/results. The numbers in short become the rows
of this version in history.csv: they replace rows of the same version, and follow those of earlier
ones. --check writes nothing and names what would change. Exit codes: 0 success; 1 --check found a
change, or a table is missing or says something that this page has no words for.
"""
import argparse
import csv
import io
import json
import math
import pathlib
import re
import statistics
import sys

METRICS = {"ttft_mean": "mean TTFT", "ttft_p90": "p90 TTFT", "ttft_p99": "p99 TTFT",
           "tpot_mean": "mean TPOT", "e2e_mean": "mean E2E", "e2e_p99": "p99 E2E"}
# Tables of vLLM's rows alone name no library.
OPERATIONS = {"gemm, vllm": "matrix products, vLLM", "gemm, sglang": "matrix products, SGLang",
              "gemm, trtllm": "matrix products, TensorRT-LLM", "gemm": "matrix products",
              "context_attention": "attention of prompts",
              "generation_attention": "attention of decodes"}
HELD_OUT = {"nothing": "nothing (in sample)", "shapes": "pairs (n, k)",
            "tokens": "numbers of tokens m", "vllm_tokens": "m, in vLLM's rows only",
            "heads": "pairs of query and KV heads",
            "all_heads": "the same, all formats and libraries", "gpus": "the whole chip"}
HISTORY = ["version", "metric", "runs", "mean_error_pct", "mean_abs_error_pct", "inside",
           "intervals"]

BEGIN = """# How large the errors are

Written by `checks/errors_page.py` from tables of the repository; a test compares the two. An error
is predicted / measured - 1, in percent: a negative one means that the prediction is too fast.
[What is simulated](scope.md) lists the parts of a system;
[checks/fidelity](../checks/fidelity/README.md) explains causes and known limits;
[checks/referee](../checks/referee/README.md) compares other simulators on the same runs.
"""
IN_SHORT = """## In short

Recorded runs of real servers on GPUs, simulated from their recorded configuration, send times and
lengths. Only runs count on which nothing was fitted that moves the metric.
"""
ABOUT_INTERVALS = """The ± of a mean error is its 95 % interval over runs, as if runs were independent;
runs of one server share errors. The 90 % intervals are the program's own, drawn from the
uncertainty of its step times and of the boundary to its clients. The last column is the mean
difference between two recordings of the same load, for the runs that have two.
"""
ABOUT_FITTED = """Runs to which a term was fitted (`checks/fidelity/split.textproto`). They show how
well the terms fit, not how well a run is predicted:
"""
ABOUT_OPERATIONS = """ predictions of measured operations. Median / p90 of the absolute error,
median signed error, all in %; then the share of rows inside their 90 % interval, in %. Formats are
bf16, the kernels are vLLM's where no library is named, and attention has heads of 128 and no window,
except in the rows of all formats.
"""
ABOUT_STEPS = """Recorded steps of a model, predicted by terms that were fitted without any
recording of it. Each range is the smallest to the largest value of the recordings, in %.
"""
ABOUT_EXECUTOR = """Llama-3-8B with random weights in this program's own executor, 160 requests,
vLLM V1's policy, predicted in advance by profiles of vLLM's kernels. Errors in %.
[checks/gpu_check](../checks/gpu_check/README.md) has eight policies and the causes,
[experiments/cpu_validation](../experiments/cpu_validation/README.md) has runs on a CPU.
"""
DATA = """## Data

The repository holds errors and intervals of recorded runs, not the recordings, some of which have
no licence. [checks/fidelity](../checks/fidelity/README.md) names their sources,
[sim/devices/profiles](../sim/devices/profiles/README.md) the sources and licences of measured
operations, [traces/data](../traces/data/README.md) those of traces.
"""


class PageError(Exception):
    """One line on a table that cannot be used."""


def read(root, name):
    path = root / name
    if not path.is_file():
        raise PageError(f"{name}: does not exist")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def signed(value, digits=1):
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def table(header, rows):
    """Markdown; columns of numbers are aligned at the right."""
    number = re.compile(r"[-+±\d]|not measured|only ")
    right = [all(number.match(cell) for cell in column) for column in zip(*rows)]
    text = ["| " + " | ".join(cells) + " |" for cells in (header, *rows)]
    text.insert(1, "|" + "|".join("--:" if aligned else "---" for aligned in right) + "|")
    return "\n".join(text) + "\n"


def span(values, digits=1):
    """Smallest to largest, or the value if they are written alike."""
    low, high = signed(min(values), digits), signed(max(values), digits)
    return low if low == high else f"{low} to {high}"


def student_95(freedom):
    """97.5 % quantile of Student's t by the expansion of Cornish and Fisher; 0.01 off at 4."""
    z = statistics.NormalDist().inv_cdf(0.975)
    terms = [z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96,
             (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384]
    return sum(term / freedom**power for power, term in enumerate(terms))


def of_mean(errors):
    """The mean with the half width of its 95 % interval, from five runs on."""
    mean = signed(statistics.fmean(errors))
    if len(errors) < 5:
        return mean
    half = student_95(len(errors) - 1) * statistics.stdev(errors) / math.sqrt(len(errors))
    return f"{mean} ± {half:.1f}"


def system(row):
    server = row["server"].replace("vllm-", "vLLM ")
    ranks = f", {row['tensor']} ranks" if row["tensor"] != "1" else ""
    return f"{row['model']}, {row['gpu']}{ranks}, {server}"


def chosen(errors, part, metric):
    """Rows of runs in which no client gave up."""
    return [row for row in errors if row["part"] == part and row["metric"] == metric
            and row["failed"] == "0"]


def values(rows, column="error_pct"):
    return [float(row[column]) for row in rows if row[column]]


def half_width(rows):
    """Median half width of 90 % intervals, in percent of their middle."""
    return statistics.median(50 * math.log(float(row["high"]) / float(row["low"])) for row in rows)


def covered(coverage, rows):
    """The intervals of these rows of errors."""
    wanted = {(row["data_set"], row["run"], row["metric"]) for row in rows}
    return [row for row in coverage if (row["data_set"], row["run"], row["metric"]) in wanted]


def inside(rows):
    return sum(int(row["inside"]) for row in rows)


def headline(errors, coverage):
    """{metric: (rows of the judged runs, their 90 % intervals)}."""
    found = {metric: chosen(errors, "judge", metric) for metric in METRICS}
    return {metric: (rows, covered(coverage, rows)) for metric, rows in found.items()}


def headline_part(numbers):
    shown = []
    for metric, (rows, intervals) in numbers.items():
        errors, noise = values(rows), values(rows, "noise_pct")
        shown.append([METRICS[metric], str(len(rows)), of_mean(errors),
                      f"{statistics.fmean(map(abs, errors)):.1f}", span(errors),
                      f"{inside(intervals)} of {len(intervals)}", f"± {half_width(intervals):.1f}",
                      f"{statistics.fmean(noise):.1f}" if noise else "not measured"])
    return table(["metric", "runs", "mean error, %", "mean absolute error, %",
                  "smallest to largest, %", "inside their 90 % interval", "its half width, %",
                  "recordings differ by, %"], shown)


def by_system(errors, part, text_of):
    """A row for each system, with text_of(rows of the part) for each metric."""
    other, words = ("fit", "only fitted") if part == "judge" else ("judge", "only judged")
    shown = []
    for name in sorted({system(row) for row in errors}):
        cells = []
        for metric in METRICS:
            mine, others = ([row for row in chosen(errors, which, metric) if system(row) == name]
                            for which in (part, other))
            cells.append(text_of(mine) if mine else words if others else "not measured")
        shown.append([name, *cells])
    return table(["model, device, server", *METRICS.values()], shown)


def error_cell(rows):
    """Mean error; of several runs also their range and number."""
    mean = signed(statistics.fmean(values(rows)))
    return mean if len(rows) == 1 else f"{mean} ({span(values(rows))}, n {len(rows)})"


def runs_part(errors, coverage):
    def interval_cell(rows):
        intervals = covered(coverage, rows)
        return f"{inside(intervals)} of {len(intervals)}, ± {half_width(intervals):.1f}"
    return "\n".join([
        "Runs that judge: mean error (smallest to largest, n runs), in %:\n",
        by_system(errors, "judge", error_cell),
        "How many of these values lie inside their 90 % interval, and its half width in %:\n",
        by_system(errors, "judge", interval_cell), ABOUT_FITTED,
        by_system(errors, "fit", error_cell)])


def saturated_part(rows):
    return ("The rate of a saturated server (Qwen3-14B, vLLM 0.23.0, one H100), of which only the "
            "rate was recorded:\n\n"
            + table(["prompt tokens", "recorded, requests/s", "offered", "simulated", "error, %"],
                    [[row["prompt_tokens"], row["recorded_per_s"], row["offered_per_s"],
                      row["simulated_per_s"], signed(float(row["error_pct"]))] for row in rows]))


def ablations_part(rows):
    cells = {(row["ablation"], row["metric"]): row for row in rows}
    shown = [[name, *(f"{float(cells[name, m]['mean_abs_error_pct']):.1f} "
                      f"({signed(float(cells[name, m]['mean_error_pct']))})" for m in METRICS)]
             for name in dict.fromkeys(row["ablation"] for row in rows)]
    runs = cells["complete", "tpot_mean"]["runs"]
    return (f"All {runs} recorded runs, fitted ones included, with one part of the model switched "
            "off or replaced: mean absolute error (mean signed error), in %.\n\n"
            + table(["the model", *METRICS.values()], shown))


def operation_cell(row):
    return (f"{float(row['median_pct']):.1f} / {float(row['p90_pct']):.1f}, "
            f"{signed(float(row['bias_pct']))}, {float(row['inside_90_pct']):.0f}")


def operations_part(root):
    tables = {name: read(root, f"checks/fidelity/expected/held_out.{name}.csv")
              for name in HELD_OUT}
    devices = list(dict.fromkeys(row["of"] for rows in tables.values() for row in rows))
    shown, counted = [], 0
    for name, rows in tables.items():
        cells = {(row["operation"], row["of"]): row for row in rows}
        counted += sum(int(row["rows"]) for row in rows)
        for operation in {row["operation"] for row in rows} - OPERATIONS.keys():
            raise PageError(f"held_out.{name}.csv: {operation} is not in OPERATIONS")
        for operation, words in OPERATIONS.items():
            found = [cells.get((operation, device)) for device in devices]
            if any(found):
                shown.append([HELD_OUT[name], words,
                              *(operation_cell(row) if row else "not measured" for row in found)])
    return (f"{counted:,}{ABOUT_OPERATIONS}\n"
            + table(["left out of the tables", "predicted", *devices], shown))


def steps_part(rows):
    groups = {}
    for row in rows:
        kind = row["operation"].split(",")[0]
        if kind != "all steps":
            groups.setdefault((row["of"], kind), []).append(row)
    shown = [[model, kind, str(len(found)), f"{sum(int(row['rows']) for row in found):,}",
              span(values(found, "median_pct")).replace("+", ""),
              span(values(found, "p90_pct")).replace("+", ""), span(values(found, "bias_pct"))]
             for (model, kind), found in groups.items()]
    return ABOUT_STEPS + "\n" + table(["model", "steps", "recordings", "number", "median error",
                                       "p90", "median signed error"], shown)


def executor_part(root):
    runs, steps = [], {}
    for path in sorted((root / "checks/gpu_check/results").glob("*/*_summary.json")):
        summary = json.loads(path.read_text())
        device, call = summary["hardware"], path.name.split("_")[1]
        metrics = summary["stages"].get("run", {}).get("validation", {}).get("metrics")
        if metrics:
            runs.append([f"{device}, call {call}",
                         f"{metrics['request_throughput']['measured']:.0f}",
                         *(signed(metrics[f"{name}_ms"]["error_percent"])
                           for name in ("mean_ttft", "p99_ttft", "mean_tpot", "mean_e2el"))])
        for step in summary["stages"].get("bars", {}).get("steps", []):
            name = f"{step['phase']} {step['batch']} x {step['length']:,}"
            steps.setdefault((device, name), []).append(step)
    shown = []
    for (device, name), found in steps.items():
        low, high = found[0]["predicted_low"], found[0]["predicted_high"]
        times = [step["device_ms"] for step in found]
        shown.append([device, name, str(len(found)), span(times, 2).replace("+", ""),
                      f"{found[0]['predicted_ms']:g} [{low:g}, {high:g}]",
                      span([100 * (found[0]["predicted_ms"] / time - 1) for time in times]),
                      f"{sum(low <= time <= high for time in times)} of {len(times)}"])
    return "\n".join([
        ABOUT_EXECUTOR, table(["card", "completed requests/s", "mean TTFT", "p99 TTFT", "mean TPOT",
                               "mean E2E"], runs),
        "Single steps on the device, and the predictions that were written down before:\n",
        table(["card", "requests x tokens", "calls", "measured, ms",
               "predicted [90 % interval], ms", "error, %", "inside"], shown)])


def claims_part(rows):
    verdicts = [row["verdict"] for row in rows]
    outside = [row for row in rows if row["verdict"] in ("below", "above")]
    shown = [[row["claim"], row["what"], row["published"], f"{row['low']} to {row['high']}",
              f"{float(row['found']):.4g}", row["open_input"] or "not known"] for row in outside]
    return (f"{verdicts.count('inside')} of {len(outside) + verdicts.count('inside')} published "
            "quantities come out inside a band that was written down before the first run "
            "([checks/claims](../checks/claims/README.md)). The others, with the input that is "
            "missing:\n\n"
            + table(["claim", "quantity", "published", "band", "found", "missing input"], shown))


def unmeasured_part(root, errors):
    profiles = {path.name for path in (root / "sim/devices/profiles").iterdir() if path.is_dir()}
    devices = ", ".join(sorted(profiles - {row["gpu"] for row in errors}))
    return f"""- Serving runs of SGLang, TGI and TensorRT-LLM: none was recorded. Their decisions were
  compared with the originals ([policies](policies/README.md)), and the times of SGLang's and
  TensorRT-LLM's kernels were measured.
- Serving runs of other programs on {devices}: only single operations were measured.
- Devices without a profile: their steps come from the data sheet. The rows "the whole chip" show
  what that costs for single operations, the row "plain roofline" what it costs for runs.
- Several replicas, separate prefill and decode, transfers between replicas, speculative decoding on
  a GPU, sessions: no recorded run has them.
- Intervals near saturation: there, an error of a few percent in steps becomes one of tens of
  percent in TTFT (call 6 of the H200 above).
"""


def history_rows(root, numbers):
    """history.csv with the rows of this version, which replace earlier ones of it."""
    version = re.search(r"project\(twinserve VERSION ([\d.]+)",
                        (root / "CMakeLists.txt").read_text())[1]
    kept = read(root, "checks/history.csv") if (root / "checks/history.csv").is_file() else []
    return [row for row in kept if row["version"] != version] + [
        {"version": version, "metric": metric, "runs": str(len(rows)),
         "mean_error_pct": signed(statistics.fmean(values(rows)), 2),
         "mean_abs_error_pct": f"{statistics.fmean(map(abs, values(rows))):.2f}",
         "inside": str(inside(intervals)), "intervals": str(len(intervals))}
        for metric, (rows, intervals) in numbers.items()]


def history_part(rows):
    cells = {(row["version"], row["metric"]): row for row in rows}
    shown = [[version, *(f"{cell['mean_abs_error_pct']} ({cell['mean_error_pct']}), "
                         f"{cell['inside']} of {cell['intervals']}" if cell else "not measured"
                         for cell in (cells.get((version, metric)) for metric in METRICS))]
             for version in dict.fromkeys(row["version"] for row in rows)]
    return ("The judged runs of each version: mean absolute error (mean signed error) in %, values "
            "inside their 90 % interval.\n\n" + table(["version", *METRICS.values()], shown))


def scope_texts(numbers, ablations):
    """What docs/scope.md says between <!-- NAME --> and <!-- end -->: the mean error of the judged
    runs, or how far all recorded runs are off on average with a part of the model replaced."""
    texts = {metric: f"{METRICS[metric]} {of_mean(values(rows))} % (n {len(rows)})"
             for metric, (rows, _) in numbers.items()}
    ranks = [row for row in numbers["tpot_mean"][0] if row["tensor"] != "1"]
    texts["ranks"] = f"mean TPOT {span(values(ranks))} % (n {len(ranks)})"
    metrics = {**METRICS, "kv_blocks": "KV blocks"}
    return texts | {f"{row['ablation']}: {row['metric']}":
                    f"{metrics[row['metric']]} {float(row['mean_abs_error_pct']):.1f} %"
                    for row in ablations if row["metric"] in metrics}


def with_numbers(scope, texts):
    def number(match):
        if match[1] not in texts:
            raise PageError(f"docs/scope.md: no number {match[1]}; "
                            f"allowed: {', '.join(sorted(texts))}")
        return f"<!-- {match[1]} -->{texts[match[1]]}<!-- end -->"
    return re.sub(r"<!-- ([\w: ]+?) -->.*?<!-- end -->", number, scope)


def written_files(root):
    """{name: text} of all that this script writes."""
    errors, coverage, saturated, ablations, steps = (
        read(root, f"checks/fidelity/expected/{name}.csv")
        for name in ("errors", "coverage", "saturated", "ablations", "held_out.models"))
    numbers = headline(errors, coverage)
    history = history_rows(root, numbers)
    page = [BEGIN, IN_SHORT, headline_part(numbers), ABOUT_INTERVALS,
            "## Recorded serving runs\n", runs_part(errors, coverage), saturated_part(saturated),
            "## What each part of the model contributes\n", ablations_part(ablations),
            "## Single operations\n", operations_part(root),
            "## Steps of models that nothing was fitted to\n", steps_part(steps),
            "## This program's executor\n", executor_part(root),
            "## Published claims\n", claims_part(read(root, "checks/claims/expected/claims.csv")),
            "## Not measured\n", unmeasured_part(root, errors),
            "## History\n", history_part(history), DATA]
    out = io.StringIO()
    writer = csv.DictWriter(out, HISTORY, lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    scope = (root / "docs/scope.md").read_text(encoding="utf-8")
    return {"docs/errors.md": "\n".join(page), "checks/history.csv": out.getvalue(),
            "docs/scope.md": with_numbers(scope, scope_texts(numbers, ablations))}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--root", type=pathlib.Path, metavar="DIR", help="another source tree",
                        default=pathlib.Path(__file__).resolve().parents[1])
    options = parser.parse_args()
    try:
        files = written_files(options.root)
    except PageError as error:
        sys.exit(f"errors_page: {error}")
    stale = [name for name, text in files.items() if not (options.root / name).is_file()
             or (options.root / name).read_text(encoding="utf-8") != text]
    if options.check:
        sys.exit("\n".join(f"errors_page: {name} is stale; checks/errors_page.py writes it"
                           for name in stale) or 0)
    for name in stale:
        (options.root / name).write_text(files[name], encoding="utf-8")
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
