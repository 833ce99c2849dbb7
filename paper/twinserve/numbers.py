"""Turns run directories into LaTeX: a macro per number of the paper, and the rows of its tables."""
import argparse
import csv
import json
import pathlib
import sys

POLICIES = {"static": ("Static", "static"), "orca": ("Orca", "Orca"),
            "vllm_v0": ("VllmZero", "vLLM V0"), "vllm_v1": ("VllmOne", "vLLM V1"),
            "sarathi": ("Sarathi", "Sarathi"), "splitfuse": ("SplitFuse", "SplitFuse")}
SCALES = {"0.5": "Half", "1": "Full", "2": "Double"}
METRICS = {"mean_ttft_ms": "TtftMean", "p50_ttft_ms": "TtftMedian", "p99_ttft_ms": "TtftTail",
           "mean_tpot_ms": "TpotMean", "p99_tpot_ms": "TpotTail", "p99_itl_ms": "ItlTail",
           "p99_e2el_ms": "EndToEndTail"}


class NumbersError(Exception):
    """Something is missing; its text is the line that the user sees."""


def read_json(file):
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        raise NumbersError(f"{file} is not there; paper/README.md says what to run") from None
    except ValueError as error:
        raise NumbersError(f"{file}: is no JSON: {error}") from None


def rounded(value, digits=3):
    """Significant digits, thousands apart, never an exponent."""
    text = f"{float(f'{value:.{digits}g}'):,f}".rstrip("0").rstrip(".")
    return text.replace(",", "{,}")


def milliseconds(value):
    """A time in the unit that reads best, with it."""
    if value == 0:
        return "0"
    return f"{rounded(value)}\\,ms" if value < 1000 else f"{rounded(value / 1000)}\\,s"


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


def table_row(name, summary):
    cells = [name] + [milliseconds(summary[metric]) for metric in
                      ("p50_ttft_ms", "p99_ttft_ms", "p99_tpot_ms", "p99_e2el_ms")]
    cells.append(percent(summary["slo_attainment"]))
    return " & ".join(cells) + r" \\"


def rows_of(summaries):
    return "\n".join(table_row(POLICIES[policy][1], summary)
                     for policy, summary in summaries.items())


def quickstart_macros(folder):
    summaries = {policy: read_json(folder / policy / "summary.json") for policy in POLICIES}
    macros = {}
    for policy, summary in summaries.items():
        macros |= macros_of_run(f"Quick{POLICIES[policy][0]}", summary)
    macros["QuickRequests"] = rounded(summaries["static"]["requests"], 9)
    macros["QuickRows"] = rows_of(summaries)
    return macros


def azure_macros(folder):
    macros = {}
    for scale, word in SCALES.items():
        summaries = {policy: read_json(folder / f"{policy}_x{scale}" / "summary.json")
                     for policy in POLICIES}
        for policy, summary in summaries.items():
            macros |= macros_of_run(f"Azure{POLICIES[policy][0]}{word}", summary)
        macros[f"Azure{word}Rows"] = rows_of(summaries)
    trace = read_json(folder / "trace.json")
    macros |= {"TraceRequests": rounded(trace["requests"], 9),
               "TraceRate": rounded(trace["rate_rps"]),
               "TraceMinutes": rounded(trace["duration_s"] / 60),
               "TraceVariation": rounded(trace["interarrival_cv"]),
               "TracePromptMean": rounded(trace["prompt_tokens"]["mean"], 4),
               "TracePromptMax": rounded(trace["prompt_tokens"]["max"], 4),
               "TraceOutputMean": rounded(trace["output_tokens"]["mean"]),
               "TraceOutputMedian": rounded(trace["output_tokens"]["p50"])}
    return macros


def speed_macros(file):
    measured = read_json(file)
    speed = {policy: row["median"] for policy, row in measured["speed"].items()}
    missing = [policy for policy in POLICIES if policy not in speed]
    if missing:
        raise NumbersError(f"{file}: has no {', '.join(missing)}; run experiments/speed/measure")
    rows = [f"{name} & {rounded(measured['speed'][policy]['steps'], 7)} & "
            + " & ".join(rounded(measured["speed"][policy][key] / 1000)
                         for key in ("median", "min", "max")) + r" \\"
            for policy, (_, name) in POLICIES.items()]
    largest = max(row["requests"] for row in measured["growth"].values())
    at_largest = [row for row in measured["growth"].values() if row["requests"] == largest]
    return {"SpeedRows": "\n".join(rows),
            "SpeedSlowest": rounded(min(speed.values()) / 1000, 2),
            "SpeedLargest": rounded(largest, 9),
            "SpeedMemory": rounded(max(row["peak_rss_mib"] for row in at_largest), 2),
            "SpeedLongest": rounded(max(row["cpu_seconds"] for row in at_largest), 2)}


def decision_macros(file):
    try:
        with file.open(newline="") as text:
            rows = list(csv.DictReader(text))
    except FileNotFoundError:
        raise NumbersError(f"{file} is not there; paper/README.md says what to run") from None
    return {"DecisionCases": rounded(sum(int(row["cases"]) for row in rows), 9),
            "DecisionEqual": rounded(sum(int(row["equal"]) for row in rows), 9),
            "DecisionVariants": str(len(rows))}


def provenance_macros(folder):
    provenance = read_json(folder / "provenance.json")
    changed = ", changed" if provenance["dirty"] else ""
    return {"RunCommit": provenance["commit"] + changed,
            "RunDate": provenance["finished_at"][:10],
            "RunCpu": provenance["machine"]["cpu"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE")
    arguments = parser.parse_args()
    runs = arguments.runs
    try:
        macros = (quickstart_macros(runs / "quickstart") | azure_macros(runs / "azure_code")
                  | speed_macros(runs / "speed/measured.json")
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
