"""Errors of predictions, and the tables that compare simulators.

A cell is one simulator, run and metric. Its error is predicted / recorded - 1, in percent. It is
`fit` where a term that moves the metric was fitted to this run, else `judge`.
"""
import csv
import io
import math
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from errors_page import signed, student_95, table  # noqa: E402 (its folder comes first)
from prediction import METRICS  # noqa: E402
import recordings  # noqa: E402

OURS = "twinserve"
WORST = 10
ALL = "all"
CELL = ["simulator", "data_set", "run", "metric", "part", "predicted_ms", "error_pct", "low_ms",
        "high_ms", "inside", "whole_run"]
COST = ["simulator", "data_set", "run", "cpu_s", "published_wall_s"]
REASON = ["simulator", "data_set", "run", "reason"]


def number(value, digits):
    return "" if value is None else f"{value:.{digits}g}"


def cell_of(name, run, metric, record, recorded):
    value = record[f"{metric}_ms"]
    low, high = record["intervals"].get(metric, (None, None))
    inside = "" if low is None else str(int(low <= recorded <= high))
    return {"simulator": name, "data_set": run.data_set, "run": run.name, "metric": metric,
            "part": "fit" if metric in record["fitted"] else "judge",
            "predicted_ms": f"{value:.6g}", "error_pct": f"{100 * (value / recorded - 1):.2f}",
            "low_ms": number(low, 6), "high_ms": number(high, 6), "inside": inside,
            "whole_run": str(int(record["whole_run"]))}


def raw_tables(records, runs):
    """{file: rows} of everything that was predicted, measured or refused."""
    cells, costs, reasons = [], [], []
    for (name, full_name), record in records.items():
        run = runs[full_name]
        place = {"simulator": name, "data_set": run.data_set, "run": run.name}
        if "reason" in record:
            reasons.append(place | {"reason": record["reason"]})
            continue
        recorded = recordings.recorded_ms(run, record["whole_run"])
        cells += [cell_of(name, run, metric, record, recorded[metric]) for metric in METRICS]
        costs.append(place | {"cpu_s": number(record["cpu_s"], 3),
                              "published_wall_s": number(record["published_wall_s"], 3)})
    return {"cells": cells, "costs": costs, "not_covered": reasons}


def mean_and_half(values):
    """Mean, and half its 95 % interval over runs (Student's t); None below five runs."""
    if len(values) < 5:
        return statistics.fmean(values), None
    half = student_95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values), half


def decimals(value):
    return "" if value is None else f"{value:.2f}"


def errors_of(cells):
    return [float(cell["error_pct"]) for cell in cells]


def error_row(cells):
    errors = errors_of(cells)
    size, size_half = mean_and_half([abs(error) for error in errors])
    mean, half = mean_and_half(errors)
    intervals = [cell for cell in cells if cell["inside"]]
    return {"runs": str(len(cells)), "mean_abs_error_pct": decimals(size),
            "abs_half_width_pct": decimals(size_half), "mean_error_pct": decimals(mean),
            "half_width_pct": decimals(half), "worst_error_pct": decimals(max(errors, key=abs)),
            "inside": str(sum(int(cell["inside"]) for cell in intervals)),
            "intervals": str(len(intervals))}


def median_cost(costs, name, data_set):
    values = [float(row["cpu_s"]) for row in costs if row["simulator"] == name and row["cpu_s"]
              and data_set in (ALL, row["data_set"])]
    return number(statistics.median(values), 3) if values else ""


def names_of(cells):
    """Ours first, then by name."""
    return sorted({cell["simulator"] for cell in cells}, key=lambda name: (name != OURS, name))


def error_table(cells, costs):
    """A row for each simulator, data set (and all of them), part and metric."""
    rows = []
    for name in names_of(cells):
        mine = [cell for cell in cells if cell["simulator"] == name]
        sets = sorted({cell["data_set"] for cell in mine})
        for data_set in sets + ([ALL] if len(sets) > 1 else []):
            for part in ("judge", "fit"):
                for metric in METRICS:
                    chosen = [cell for cell in mine if cell["metric"] == metric
                              and cell["part"] == part and data_set in (ALL, cell["data_set"])]
                    if chosen:
                        rows.append({"simulator": name, "data_set": data_set, "part": part,
                                     "metric": metric, **error_row(chosen),
                                     "cpu_s": median_cost(costs, name, data_set)})
    return rows


def pair_row(a, b, metric, mine, theirs):
    both = sorted(mine.keys() & theirs.keys())
    sizes = [(abs(float(mine[key]["error_pct"])), abs(float(theirs[key]["error_pct"])))
             for key in both]
    difference, half = mean_and_half([x - y for x, y in sizes])
    return {"a": a, "b": b, "metric": metric, "runs": str(len(both)),
            "a_fitted": str(sum(mine[key]["part"] == "fit" for key in both)),
            "b_fitted": str(sum(theirs[key]["part"] == "fit" for key in both)),
            "a_mean_abs_error_pct": decimals(statistics.fmean(x for x, _ in sizes)),
            "b_mean_abs_error_pct": decimals(statistics.fmean(y for _, y in sizes)),
            "difference_pct": decimals(difference), "half_width_pct": decimals(half),
            "a_closer": str(sum(x < y for x, y in sizes)),
            "b_closer": str(sum(y < x for x, y in sizes))}


def pair_table(cells):
    """Every two simulators on the runs that both cover."""
    names, rows = names_of(cells), []
    by = {}
    for cell in cells:
        place = by.setdefault((cell["simulator"], cell["metric"]), {})
        place[cell["data_set"], cell["run"]] = cell
    for i, a in enumerate(names):
        for b in names[i + 1:]:
            for metric in METRICS:
                mine, theirs = by.get((a, metric), {}), by.get((b, metric), {})
                if mine.keys() & theirs.keys():
                    rows.append(pair_row(a, b, metric, mine, theirs))
    return rows


def worst_table(cells):
    """Our cells with the largest errors, and what others say there."""
    ours = sorted((cell for cell in cells if cell["simulator"] == OURS),
                  key=lambda cell: -abs(float(cell["error_pct"])))[:WORST]
    rows = []
    for cell in ours:
        same = lambda other: all(other[key] == cell[key] for key in ("data_set", "run", "metric"))
        others = sorted((other for other in cells if same(other) and other["simulator"] != OURS),
                        key=lambda other: abs(float(other["error_pct"])))
        closest = (f"{others[0]['simulator']} {signed(float(others[0]['error_pct']))}" if others
                   else "")
        rows.append({key: cell[key] for key in ("data_set", "run", "metric", "part", "error_pct",
                                                "inside")} | {"closest_other": closest})
    return rows


def derived_tables(raw):
    return {"table": error_table(raw["cells"], raw["costs"]), "pairs": pair_table(raw["cells"]),
            "worst": worst_table(raw["cells"])}


def csv_text(rows, columns=None):
    out = io.StringIO()
    writer = csv.DictWriter(out, columns or list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def with_half(mean, half):
    text = signed(float(mean)).replace("+", "")
    return f"{text} ± {float(half):.1f}" if half else text


def error_cell(row):
    if row is None:
        return "-"
    return (f"{with_half(row['mean_abs_error_pct'], row['abs_half_width_pct'])} "
            f"({signed(float(row['mean_error_pct']))}), n {row['runs']}")


def inside_cell(found):
    """The share of intervals that hold the recorded value, by metric."""
    counts = [f"{row['inside']}/{row['intervals']}" for row in found
              if row and row["intervals"] != "0"]
    return ", ".join(counts) or "-"


def cost_cell(name, data_set, row, costs):
    if row["cpu_s"]:
        return row["cpu_s"]
    walls = [cost["published_wall_s"] for cost in costs if cost["simulator"] == name
             and cost["published_wall_s"] and data_set in (ALL, cost["data_set"])]
    return f"{walls[0]} wall, published" if walls else "not published"


def error_markdown(rows, costs):
    keys = dict.fromkeys((row["simulator"], row["data_set"], row["part"]) for row in rows)
    shown = []
    for name, data_set, part in keys:
        found = [next((row for row in rows if (row["simulator"], row["data_set"], row["part"],
                                               row["metric"]) == (name, data_set, part, metric)),
                      None) for metric in METRICS]
        some = next(row for row in found if row)
        shown.append([name, data_set, "fitted" if part == "fit" else "judged",
                      *map(error_cell, found), inside_cell(found),
                      cost_cell(name, data_set, some, costs)])
    return table(["simulator", "runs of", "the runs were", "TTFT", "TPOT", "E2E",
                  "inside 90 % intervals", "CPU-s a run"], shown)


def pair_markdown(rows):
    shown = [[row["b"], row["metric"].upper(), row["runs"], f"{row['a_fitted']}, {row['b_fitted']}",
              row["a_mean_abs_error_pct"], row["b_mean_abs_error_pct"],
              signed(float(row["difference_pct"]), 2)
              + (f" ± {row['half_width_pct']}" if row["half_width_pct"] else ""),
              f"{row['a_closer']} : {row['b_closer']}"] for row in rows if row["a"] == OURS]
    return table(["other", "metric", "common runs", "fitted: ours, theirs", "our error",
                  "their error", "difference", "closer, ours : theirs"], shown)


def worst_markdown(rows):
    shown = [[f"{row['data_set']}/{row['run']}", row["metric"].upper(),
              "fitted" if row["part"] == "fit" else "judged", signed(float(row["error_pct"])),
              {"1": "yes", "0": "no", "": "-"}[row["inside"]], row["closest_other"] or "none"]
             for row in rows]
    return table(["run", "mean", "the run was", "our error, %", "inside its interval",
                  "closest other simulator"], shown)


def parts_markdown(ablations):
    """What each part of twinserve's model is worth, from checks/fidelity."""
    found = {(row["ablation"], row["metric"]): row for row in ablations}
    names = list(dict.fromkeys(row["ablation"] for row in ablations))
    shown = []
    for name in names:
        cells = [found[name, f"{metric}_mean"] for metric in METRICS]
        shown.append([name, *(f"{float(cell['mean_abs_error_pct']):.1f} "
                              f"({signed(float(cell['mean_error_pct']))})" for cell in cells)])
    return table(["the model", "TTFT", "TPOT", "E2E"], shown)


def reasons_markdown(rows):
    groups = {}
    for row in rows:
        groups.setdefault((row["simulator"], row["reason"]), []).append(row)
    shown = [[name, str(len(found)), ", ".join(sorted({row["data_set"] for row in found})), reason]
             for (name, reason), found in groups.items()]
    return table(["simulator", "runs", "of", "reason"], shown)
