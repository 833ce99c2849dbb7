"""Turns run directories into LaTeX: a macro per number of the paper, and the rows of its tables."""
import argparse
import csv
import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "plots"))
from policies import POLICIES, policies_in  # noqa: E402 (its folder comes first)

LOADS = {"x0.5": "Half", "x1": "Full", "x2": "Double", "burst": "Burst"}
# Runs with other step sizes than the policies' own.
STEPS = {"x1_step1024": "StepOneK", "x1_step2048": "StepTwoK", "x1_step2048_sync": "StepTwoKSync",
         "x1_step4096": "StepFourK", "x1_step8192": "StepEightK"}
# A metric without a value, such as the TPOT of answers that arrive whole.
UNDEFINED = "--"
METRICS = {"mean_ttft_ms": "TtftMean", "p50_ttft_ms": "TtftMedian", "p99_ttft_ms": "TtftTail",
           "mean_tpot_ms": "TpotMean", "p99_tpot_ms": "TpotTail", "p99_itl_ms": "ItlTail",
           "p99_e2el_ms": "EndToEndTail"}


class NumbersError(Exception):
    """Something is missing; its text is the line that the user sees."""


def read_text(file):
    try:
        return file.read_text()
    except FileNotFoundError:
        raise NumbersError(f"{file} is not there; paper/README.md says what to run") from None


def read_json(file):
    try:
        return json.loads(read_text(file))
    except ValueError as error:
        raise NumbersError(f"{file}: is no JSON: {error}") from None


def read_rows(file):
    return list(csv.DictReader(read_text(file).splitlines()))


def rounded(value, digits=3):
    """Significant digits, thousands apart, never an exponent."""
    text = f"{float(f'{value:.{digits}g}'):,f}".rstrip("0").rstrip(".")
    return text.replace(",", "{,}")


def three_digits(value):
    """Like rounded, but 15.0 stays so."""
    decimals = max(0, 2 - math.floor(math.log10(float(f"{value:.3g}"))))
    return f"{float(f'{value:.3g}'):,.{decimals}f}".replace(",", "{,}")


def milliseconds(value):
    """A time in the unit that reads best, with it."""
    if value is None:
        return UNDEFINED
    if value == 0:
        return "0"
    if value < 999.5:
        return f"{three_digits(value)}\\,ms"
    return f"{three_digits(value / 1000)}\\,s"


def percent(share):
    if share is None:
        return UNDEFINED
    return f"{100 * share:.1f}\\,\\%"


def macros_of_run(prefix, summary):
    macros = {prefix + word: milliseconds(summary[name]) for name, word in METRICS.items()}
    goodput = summary["request_goodput"]
    macros[prefix + "Goodput"] = UNDEFINED if goodput is None else rounded(goodput)
    macros[prefix + "Attainment"] = percent(summary["slo_attainment"])
    macros[prefix + "KvMean"] = percent(summary["mean_kv_used_share"])
    macros[prefix + "KvMax"] = percent(summary["max_kv_used_share"])
    macros[prefix + "Busy"] = percent(summary["busy_share"])
    macros[prefix + "PrefixHits"] = percent(summary["prefix_hit_share"])
    return macros


def thousands(value):
    return f"{float(value) / 1000:.1f}"


def quickstart_macros(folder):
    summaries = {policy: read_json(folder / policy / "summary.json") for policy in
                 policies_in(ROOT / "experiments/quickstart")}
    macros = {}
    for policy, summary in summaries.items():
        macros |= macros_of_run(f"Quick{POLICIES[policy].word}", summary)
    macros["QuickRequests"] = rounded(summaries["static"]["requests"], 9)
    return macros


def number_in(row, name):
    return float(row[name]) if row[name] else None


def policy_cells(row):
    """Of the table of policies at the trace's own rate."""
    return [POLICIES[row["policy"]].label,
            *(milliseconds(number_in(row, name)) for name in
              ("p50_ttft_ms", "p99_ttft_ms", "p99_tpot_ms", "p99_e2el_ms")),
            thousands(row["backlog_tokens_per_s"]), row["max_running"],
            percent(float(row["max_kv_used_share"])), percent(number_in(row, "slo_attainment"))]


def step_cells(row):
    """Of the table of step sizes."""
    size = re.search(r"step(\d+)", row["load"]).group(1)
    name = POLICIES[row["policy"]].label + (", synchr." if row["load"].endswith("_sync") else "")
    return [rounded(int(size), 9), name,
            *(milliseconds(float(row[name])) for name in ("p99_tpot_ms", "p99_ttft_ms")),
            thousands(row["backlog_tokens_per_s"]), percent(float(row["slo_attainment"]))]


def table_of(rows):
    """Rows of cells."""
    return "\n".join(" & ".join(cells) + r" \\" for cells in rows)


def azure_macros(folder):
    rows = read_rows(folder / "results.csv")
    macros = {}
    for row in rows:
        policy, load = row["policy"], row["load"]
        prefix = f"Azure{POLICIES[policy].word}{(LOADS | STEPS)[load]}"
        macros |= macros_of_run(prefix, read_json(folder / f"{policy}_{load}" / "summary.json"))
        macros[prefix + "Pace"] = thousands(row["backlog_tokens_per_s"])
        macros[prefix + "Running"] = row["max_running"]
        macros[prefix + "Steps"] = rounded(int(row["steps"]), 9)
    macros["AzureFullRows"] = table_of(policy_cells(row) for row in rows if row["load"] == "x1")
    steps = [row for row in rows if row["load"] in STEPS]
    steps.sort(key=lambda row: list(STEPS).index(row["load"]))
    macros["AzureStepRows"] = table_of(step_cells(row) for row in steps)
    trace = read_json(folder / "trace.json")
    macros |= {"TraceRequests": rounded(trace["requests"], 9),
               "TraceRate": rounded(trace["rate_rps"]),
               "TraceMinutes": rounded(trace["duration_s"] / 60),
               "TraceVariation": rounded(trace["interarrival_cv"]),
               "TracePromptMean": rounded(trace["prompt_tokens"]["mean"], 4),
               "TracePromptMax": rounded(trace["prompt_tokens"]["max"], 4),
               "TraceOutputMean": rounded(trace["output_tokens"]["mean"]),
               "TraceOutputMedian": rounded(trace["output_tokens"]["p50"])}
    # Its mean load, beside the pace of policies.
    prompt_tokens = trace["requests"] * trace["prompt_tokens"]["mean"]
    macros["TracePace"] = thousands(prompt_tokens / trace["duration_s"])
    return macros


def speed_macros(folder):
    speed, growth = read_json(folder / "speed.json"), read_json(folder / "linearity.json")
    rows = {row["policy"]: row for row in speed["rows"]}
    policies = policies_in(ROOT / "experiments/speed")
    for measured in (speed, growth):
        missing = set(policies) - {row["policy"] for row in measured["rows"]}
        if missing:
            raise NumbersError(f"{folder}: lacks {', '.join(sorted(missing))}: "
                               "run experiments/speed/measure")
    cells = [[POLICIES[policy].label, rounded(rows[policy]["steps"], 9),
              *(rounded(rows[policy]["steps_per_cpu_s"][key] / 1000)
                for key in ("median", "min", "max"))]
             for policy in policies]
    sizes = sorted({row["requests"] for row in growth["rows"]})
    at = {size: {row["policy"]: row for row in growth["rows"] if row["requests"] == size}
          for size in sizes}
    ratios = [at[sizes[-1]][policy]["cpu_seconds_median"] / sizes[-1]
              / (at[sizes[0]][policy]["cpu_seconds_median"] / sizes[0]) for policy in policies]
    last = at[sizes[-1]].values()
    return {"SpeedRows": table_of(cells),
            "SpeedRequests": rounded(speed["rows"][0]["requests"], 9),
            "SpeedRepeats": str(speed["repeats"]),
            "SpeedSlowest": rounded(min(row["steps_per_cpu_s"]["median"]
                                        for row in rows.values()) / 1000, 2),
            "SpeedSmallest": rounded(sizes[0], 9),
            "SpeedLargest": rounded(sizes[-1], 9),
            "SpeedRatioLeast": rounded(min(ratios), 2),
            "SpeedRatioMost": rounded(max(ratios), 2),
            "SpeedMemoryBefore": rounded(max(row["peak_rss_mib"]
                                             for row in at[sizes[0]].values()), 2),
            "SpeedMemory": rounded(max(row["peak_rss_mib"] for row in last), 2),
            "SpeedLongest": rounded(max(row["cpu_seconds_median"] for row in last), 2),
            "SpeedCommit": commit_of(speed),
            "SpeedCpu": speed["machine"]["cpu"]}


def decision_macros(file):
    rows = read_rows(file)
    modelled = sum(int(row["cases"]) for row in rows if row["grade"] == "MODEL")
    return {"DecisionCases": rounded(sum(int(row["cases"]) for row in rows), 9),
            "DecisionModelled": rounded(modelled, 9),
            "DecisionEqual": rounded(sum(int(row["equal"]) for row in rows), 9),
            "DecisionVariants": str(len(rows))}


DATA_SETS = {"residency_h100_qwen14b": "Qwen3-14B, H100",
             "blis16_requests": "7B to 8x7B, H100", "lss_vllm_bench": "RTX PRO 6000"}
FIDELITY_METRICS = ("ttft_mean", "tpot_mean", "e2e_mean")


def signed(value):
    return f"${round(value, 1) + 0.0:+.1f}$"  # never -0.0


def median_and_worst(values):
    # The module statistics imports a module numbers and would get this file.
    values = sorted(values)
    middle = len(values) // 2
    median = (values[middle] + values[~middle]) / 2
    return f"{median:.1f} / {values[-1]:.1f}"


def fidelity_macros(folder):
    """Of recorded runs on GPUs: absolute errors, and what each part of the model buys."""
    errors = [row for row in read_rows(folder / "errors.csv") if row["failed"] == "0"]
    table = []
    for data_set, label in DATA_SETS.items():
        for part in ("fit", "judge"):
            rows = [row for row in errors if (row["data_set"], row["part"]) == (data_set, part)]
            if not rows:
                continue
            table.append([label, part, str(len({row["run"] for row in rows})),
                          *(median_and_worst([abs(float(row["error_pct"])) for row in rows
                                              if row["metric"] == name])
                            for name in FIDELITY_METRICS)])
    ablations = {}
    for row in read_rows(folder / "ablations.csv"):
        ablations.setdefault(row["ablation"], {})[row["metric"]] = row["mean_abs_error_pct"]
    columns = (*FIDELITY_METRICS, "throughput")
    rows = [[name, *(f"{float(errors[column]):.1f}" for column in columns)]
            for name, errors in ablations.items()]
    return {"FidelityRows": table_of(table), "AblationRows": table_of(rows)}


def coverage_macros(file):
    """How many values of runs on which nothing was fitted lie in their 90 % intervals."""
    judged = [row for row in read_rows(file) if row["part"] == "judge"]
    means = [int(row["inside"]) for row in judged if row["metric"] in FIDELITY_METRICS]
    tails = [int(row["inside"]) for row in judged if row["metric"] == "ttft_p99"]
    return {"CoverageInside": str(sum(means)), "CoverageValues": str(len(means)),
            "CoverageTailInside": str(sum(tails)), "CoverageTailValues": str(len(tails))}


def optimum_macros(file):
    """Mean latencies over a bound that no scheduler beats, of policies as their systems start."""
    rows = [row for row in read_rows(file)
            if row["workload"] == "quickstart" and "oracle" not in row["policy"]]
    rows.sort(key=lambda row: float(row["mean_e2el_ms_ratio"]))
    return {"OptimumRows": table_of([[row["policy"], three_digits(float(row["mean_ttft_ms_ratio"])),
                                      three_digits(float(row["mean_e2el_ms_ratio"]))]
                                     for row in rows])}


CLAIMS = {("orca", "ratio_2"): "Orca / FasterTransformer at 2 x the unloaded latency",
          ("vllm", "sharegpt_max"): "vLLM / Orca that reserves the maximum",
          ("vllm_memory", "oracle_states"): "tokens in the cache of Orca-Oracle, \\%",
          ("sarathi", "best_gain"): "Sarathi, largest gain over P:D ratios",
          ("sarathi_serve", "mistral_strict"): "Sarathi-Serve / vLLM, Mistral-7B, strict",
          ("sarathi_serve", "yi_strict"): "the same, Yi-34B",
          ("fastgen", "tail"): "FastGen, p95 between tokens",
          ("distserve", "together"): "DistServe's Fig. 1, colocated, req/s"}


def claim_macros(file):
    """How many quantities of published claims lie in their bands, and some of them."""
    rows = [row for row in read_rows(file) if row["verdict"]]
    judged = [row for row in rows if row["verdict"] in ("inside", "above", "below")]
    by_name = {(row["claim"], row["quantity"]): row for row in rows}
    cells = []
    for name, label in CLAIMS.items():
        row = by_name[name]
        cells.append([label, row["published"], f"{row['low']} to {row['high']}",
                      rounded(float(row["found"])), row["verdict"]])
    return {"ClaimRows": table_of(cells), "ClaimsJudged": str(len(judged)),
            "ClaimsInside": str(sum(row["verdict"] == "inside" for row in judged))}


def validations(folder):
    """Pairs of a label and validation.json, of a real model on the CPU."""
    for load in ("full", "moderate"):
        for policy in policies_in(ROOT / "experiments/quickstart"):
            if not (folder / f"{policy}_{load}").is_dir():
                continue
            result = read_json(folder / f"{policy}_{load}" / "validation.json")
            if not result["digest_equal"]:
                raise NumbersError(f"{folder}: a replay of {policy}_{load} decided otherwise")
            yield f"{POLICIES[policy].label}, {load}", result


def validation_macros(folder):
    """A real model on the CPU against its prediction."""
    names = {"mean_tpot_ms": 5, "mean_e2el_ms": 5, "mean_ttft_ms": 10}
    table, kept, values, noise = [], 0, 0, 0
    for label, result in validations(folder):
        metrics = [result["metrics"][name] for name in names]
        noise = max([noise, *(metric["repeat_noise_percent"] for metric in metrics)])
        table.append([label, *(f"{signed(metric['error_percent'])} "
                               f"({metric['repeat_noise_percent']:.1f})" for metric in metrics)])
        for metric, limit in zip(metrics, names.values()):
            values += 1
            kept += abs(metric["error_percent"]) <= max(limit, metric["repeat_noise_percent"])
    return {"CpuRows": table_of(table), "CpuValues": str(values), "CpuKept": str(kept),
            "CpuNoise": f"{noise:.0f}"}


# Columns of the table of causes.
CAUSES = [("gemm",), ("attention",), ("other", "sampling", "communication", "device"), ("host",),
          ("decisions", "unexplained", "arrival_jitter")]


def attribution_macros(folder):
    """Which cause has which share in the error of the mean TPOT, in percent of what was measured."""
    table = []
    for label, result in validations(folder):
        metric = result["metrics"]["mean_tpot_ms"]
        shares = metric["attribution"]
        unknown = set(shares) - {cause for causes in CAUSES for cause in causes}
        if unknown:
            raise NumbersError(f"{folder}: no column for {', '.join(sorted(unknown))}")
        of_measured = 100 / metric["measured"]
        table.append([label, signed(metric["error_percent"]),
                      *(signed(of_measured * sum(shares.get(cause, 0) for cause in causes))
                        for causes in CAUSES)])
    return {"CauseRows": table_of(table)}


def commit_of(provenance):
    return provenance["commit"] + (" with changes" if provenance["dirty"] else "")


def provenance_macros(folder):
    provenance = read_json(folder / "provenance.json")
    return {"RunCommit": commit_of(provenance), "RunDate": provenance["finished_at"][:10]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE")
    arguments = parser.parse_args()
    runs = arguments.runs
    try:
        macros = (quickstart_macros(runs / "quickstart") | azure_macros(runs / "azure_code")
                  | speed_macros(runs / "speed")
                  | decision_macros(runs / "recorded_decisions/results.csv")
                  | fidelity_macros(ROOT / "checks/fidelity/expected")
                  | coverage_macros(ROOT / "checks/fidelity/expected/coverage.csv")
                  | optimum_macros(ROOT / "experiments/optimum/expected/optimum.csv")
                  | claim_macros(ROOT / "checks/claims/expected/claims.csv")
                  | validation_macros(runs / "cpu_validation")
                  | attribution_macros(runs / "cpu_validation")
                  | provenance_macros(runs / "azure_code/vllm_v1_x1"))
    except NumbersError as error:
        sys.exit(f"numbers: {error}")
    except KeyError as error:
        sys.exit(f"numbers: a result lacks {error}; it is from another version: run it again")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("".join(f"\\newcommand{{\\{name}}}{{{text}}}\n"
                                     for name, text in macros.items()))
    print(arguments.out)


if __name__ == "__main__":
    main()
