"""Turns run directories into LaTeX: a macro per number of the paper, and the rows of its tables."""
import argparse
import csv
import json
import math
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "plots"))
from policies import POLICIES  # noqa: E402 (its folder comes first)

LOADS = {"x0.5": "Half", "x1": "Full", "x2": "Double", "burst": "Burst"}
# Runs with other step sizes than the policies' own.
STEPS = {"x1_step1024": "StepOneK", "x1_step2048": "StepTwoK", "x1_step2048_sync": "StepTwoKSync",
         "x1_step4096": "StepFourK", "x1_step8192": "StepEightK"}
# Recorded from models of systems that are not public, not from the systems.
MODELLED = {"orca", "static_padded"}
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
    if value == 0:
        return "0"
    if value < 999.5:
        return f"{three_digits(value)}\\,ms"
    return f"{three_digits(value / 1000)}\\,s"


def percent(share):
    return f"{100 * share:.1f}\\,\\%"


def macros_of_run(prefix, summary):
    macros = {prefix + word: milliseconds(summary[name]) for name, word in METRICS.items()}
    macros[prefix + "Goodput"] = rounded(summary["request_goodput"])
    macros[prefix + "Attainment"] = percent(summary["slo_attainment"])
    macros[prefix + "KvMean"] = percent(summary["mean_kv_used_share"])
    macros[prefix + "KvMax"] = percent(summary["max_kv_used_share"])
    macros[prefix + "Busy"] = percent(summary["busy_share"])
    macros[prefix + "PrefixHits"] = percent(summary["prefix_hit_share"])
    return macros


def thousands(value):
    return f"{float(value) / 1000:.1f}"


def quickstart_macros(folder):
    summaries = {policy: read_json(folder / policy / "summary.json") for policy in POLICIES}
    macros = {}
    for policy, summary in summaries.items():
        macros |= macros_of_run(f"Quick{POLICIES[policy].word}", summary)
    macros["QuickRequests"] = rounded(summaries["static"]["requests"], 9)
    return macros


def policy_cells(row):
    """Of the table of policies at the trace's own rate."""
    return [POLICIES[row["policy"]].label,
            *(milliseconds(float(row[name])) for name in
              ("p50_ttft_ms", "p99_ttft_ms", "p99_tpot_ms", "p99_e2el_ms")),
            thousands(row["backlog_tokens_per_s"]), row["max_running"],
            percent(float(row["max_kv_used_share"])), percent(float(row["slo_attainment"]))]


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
    for measured in (speed, growth):
        missing = set(POLICIES) - {row["policy"] for row in measured["rows"]}
        if missing:
            raise NumbersError(f"{folder}: lacks {', '.join(sorted(missing))}: "
                               "run experiments/speed/measure")
    cells = [[name, rounded(rows[policy]["steps"], 9),
              *(rounded(rows[policy]["steps_per_cpu_s"][key] / 1000)
                for key in ("median", "min", "max"))]
             for policy, (name, *_) in POLICIES.items()]
    sizes = sorted({row["requests"] for row in growth["rows"]})
    at = {size: {row["policy"]: row for row in growth["rows"] if row["requests"] == size}
          for size in sizes}
    ratios = [at[sizes[-1]][policy]["cpu_seconds_median"] / sizes[-1]
              / (at[sizes[0]][policy]["cpu_seconds_median"] / sizes[0]) for policy in POLICIES]
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
    modelled = sum(int(row["cases"]) for row in rows if row["variant"] in MODELLED)
    return {"DecisionCases": rounded(sum(int(row["cases"]) for row in rows), 9),
            "DecisionModelled": rounded(modelled, 9),
            "DecisionEqual": rounded(sum(int(row["equal"]) for row in rows), 9),
            "DecisionVariants": str(len(rows))}


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
