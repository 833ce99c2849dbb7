#!/usr/bin/env python3
"""Draws ratios against the latency bound, and gains against the parameter that decides them.

Usage: build/venv/bin/python checks/claims/figure.py runs/claims [--out DIR]

Reads the tables that checks/claims/run writes. Published points are crosses.
"""
import argparse
import csv
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "plots"))
import matplotlib.pyplot as plt  # noqa: E402 (plots/ comes first)

from matplotlib.ticker import NullFormatter  # noqa: E402

import style  # noqa: E402
from policies import policy_named  # noqa: E402


def read(folder, name):
    """Columns of runs/claims/NAME.csv as lists of numbers."""
    path = folder / f"{name}.csv"
    if not path.is_file():
        sys.exit(f"figure: {path} does not exist; checks/claims/run writes it")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {column: [float(row[column]) for row in rows] for column in rows[0]}


def line(axes, x, y, policy, label):
    look = policy_named(policy)
    points = [(a, b) for a, b in zip(x, y) if b > 0]
    axes.plot(*zip(*points), color=look.colour, marker=look.marker, markersize=3.5, label=label)


def published(axes, x, y, text):
    axes.plot([x], [y], color="black", marker="x", linestyle="none", markersize=5)
    axes.annotate(text, (x, y), xytext=(5, -13), textcoords="offset points", fontsize=7)


def ratio(table, mine, other):
    return [a / b if b else 0 for a, b in zip(table[mine], table[other])]


def draw_bounds(folder):
    """Four headline ratios as functions of the bound at which they are read."""
    figure, panels = plt.subplots(2, 2, figsize=(style.TEXT_WIDTH, 4.6))
    orca, vllm, sarathi = (read(folder, name) for name in ("orca", "vllm", "sarathi_serve"))
    axes = panels[0, 0]
    line(axes, orca["bound"], ratio(orca, "orca", "ft"), "orca", "Orca / static")
    published(axes, 2, 36.9, "published: 36.9")
    line(axes, orca["bound"], ratio(orca, "orca_8", "ft"), "vllm_v0", "with 8 slots each")
    axes.set(xlabel="bound (times the unloaded latency)", ylabel="ratio of rates",
             title="Orca, GPT-3 175B", xlim=(1, None), ylim=(0, None))
    axes = panels[0, 1]
    for other, policy in (("oracle", "orca"), ("max", "sarathi"), ("ft", "static")):
        line(axes, vllm["ms_per_token"], ratio(vllm, "vllm", other), policy, f"vLLM / {other}")
    axes.axhspan(1.7, 2.7, color=policy_named("orca").colour, alpha=0.15, linewidth=0,
                 label="published, vLLM / oracle")
    axes.set(xlabel="bound on the mean latency per token (ms)", ylabel="ratio of rates",
             title="vLLM, OPT-13B, ShareGPT", xscale="log", yscale="log")
    axes = panels[1, 0]
    for budget in (512, 2048):
        line(axes, sarathi["tbt_ms"], ratio(sarathi, f"sarathi{budget}", "vllm"),
             "sarathi" if budget == 512 else "splitfuse", f"Sarathi, budget {budget} / vLLM")
    published(axes, 100, 2.6, "published: 2.6")
    axes.set(xlabel="bound on the P99 time between tokens (ms)", ylabel="ratio of capacities",
             title="Sarathi-Serve, Mistral-7B", xscale="log")
    axes = panels[1, 1]
    batching = read(folder, "batching")
    line(axes, batching["sigma"], batching["gain"], "orca", "continuous / static, batch 8")
    line(axes, batching["sigma"], [s / 100 for s in batching["static_slots"]], "static",
         "slot use of static batches")
    axes.set(xlabel="sigma of lognormal output lengths", ylabel="ratio of rates; share",
             title="Continuous batching")
    for axes in panels.flat:
        axes.legend()
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(style.count_text)
            axis.set_minor_formatter(NullFormatter())
    for axes in (panels[0, 1], panels[1, 0]):
        ticks = [tick for tick in (100, 200, 500, 1000, 2000) if tick <= axes.get_xlim()[1]]
        axes.set_xticks(ticks)
    panels[0, 1].set_yticks([1, 2, 5, 10, 20, 50])
    panels[0, 1].set_ylim(1, 400)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    options = parser.parse_args()
    style.use_style()
    options.out.mkdir(parents=True, exist_ok=True)
    draw_bounds(options.runs).savefig(options.out / "claims.png")
    print(options.out / "claims.png")


if __name__ == "__main__":
    main()
