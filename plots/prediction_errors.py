#!/usr/bin/env python3
"""Signed errors of predicted serving runs, one point per recorded run, and what the parts of the
model contribute. Reads the folder that checks/fidelity/run writes: errors.csv, and
ablations.csv if it is there."""
import style
from environment import plt
from run_data import PlotError, read_table

METRICS = {"ttft_mean": "TTFT mean", "ttft_p50": "TTFT p50", "ttft_p90": "TTFT p90",
           "ttft_p99": "TTFT p99", "tpot_mean": "TPOT mean", "itl_mean": "ITL mean",
           "itl_p99": "ITL p99", "e2e_mean": "E2E mean", "e2e_p99": "E2E p99",
           "throughput": "throughput", "capacity": "capacity", "running_mean": "running",
           "kv_share_mean": "KV in use"}
LATENCIES = ("ttft", "tpot", "itl", "e2e")
COMPARED = {"ttft_mean": "#333333", "e2e_mean": "#808080", "ttft_p99": "#BBBBBB"}
DATA_SETS = {"residency_h100_qwen14b": ("H100, Qwen3-14B", "#0072B2", "o"),
             "blis16_requests": ("H100, 7B to 70B", "#D55E00", "s"),
             "lss_vllm_bench": ("RTX", "#009E73", "D")}
OTHER_SETS = [("#CC79A7", "^"), ("#E69F00", "v"), ("#000000", "x")]  # of data sets without a look
GOAL_PERCENT = 4  # of means; drawn as a band


def metric_name(metric):
    """tpot_p90: TPOT p90. Names that nobody listed keep their words."""
    first, *rest = metric.split("_")
    return METRICS.get(metric, " ".join([first.upper() if first in LATENCIES else first, *rest]))


def read(paths, _arguments):
    folder = paths[0]
    if not (folder / "errors.csv").is_file():
        raise PlotError(f"{folder}: has no errors.csv; checks/fidelity/run writes it")
    errors = read_table(folder / "errors.csv",
                        ["data_set", "part", "metric", "error_pct", "failed"])
    ablations = None
    if (folder / "ablations.csv").is_file() and (folder / "ablations.csv").stat().st_size:
        ablations = read_table(folder / "ablations.csv",
                               ["ablation", "metric", "mean_abs_error_pct"])
    return errors[errors["failed"] == 0], ablations


def draw_errors(axes, errors):
    found = set(errors["metric"])
    shown = [name for name in METRICS if name in found] + sorted(found - set(METRICS))
    found = set(errors["data_set"])
    others = sorted(found - set(DATA_SETS))
    looks = DATA_SETS | {name: (name, *OTHER_SETS[i % len(OTHER_SETS)])
                         for i, name in enumerate(others)}
    sets = [name for name in looks if name in found]
    axes.axvspan(-GOAL_PERCENT, GOAL_PERCENT, color="#EEEEEE", linewidth=0, zorder=0)
    for offset, name in enumerate(sets):
        label, colour, marker = looks[name]
        for part, face in (("judge", colour), ("fit", "none")):
            chosen = errors[(errors["data_set"] == name) & (errors["part"] == part)
                            & errors["metric"].isin(shown)]
            if chosen.empty:
                continue
            places = [shown.index(m) + 0.22 * (offset - (len(sets) - 1) / 2)
                      for m in chosen["metric"]]
            axes.scatter(chosen["error_pct"], places, s=9, marker=marker, edgecolors=colour,
                         facecolors=face, linewidths=0.6,
                         label=label if part == "judge" else f"{label} (fit)")
    axes.axvline(0, color="#888888", linewidth=0.6)
    axes.set_yticks(range(len(shown)), [metric_name(metric) for metric in shown])
    axes.invert_yaxis()
    axes.set_xlabel("prediction error (%)")


def draw_ablations(axes, table):
    names = list(dict.fromkeys(table["ablation"]))
    metrics = [metric for metric in COMPARED if metric in set(table["metric"])]
    height = 0.8 / len(metrics)
    for row, metric in enumerate(metrics):
        values = table[table["metric"] == metric].set_index("ablation")["mean_abs_error_pct"]
        places = [i + height * (row - (len(metrics) - 1) / 2) for i in range(len(names))]
        axes.barh(places, [values.get(name, 0) for name in names], height, edgecolor="white",
                  color=COMPARED[metric], hatch=style.HATCHES[row], linewidth=0,
                  label=METRICS[metric])
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("mean absolute error (%)")


def draw(tables, arguments):
    errors, ablations = tables
    panels = 1 if ablations is None else 2
    figure, axes = plt.subplots(1, panels, squeeze=False, width_ratios=[1.25, 1][:panels],
                                figsize=(style.width_of(arguments, 2), 3.4))
    draw_errors(axes[0][0], errors)
    if ablations is not None:
        draw_ablations(axes[0][1], ablations)
    style.legend_above(figure, style.labelled(axes[0]))
    return figure


if __name__ == "__main__":
    style.main(__doc__, "prediction_errors", draw, read, "FOLDER")
