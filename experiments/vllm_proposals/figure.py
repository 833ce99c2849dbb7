#!/usr/bin/env python3
"""Draws the changes of latencies of each rule against vLLM's own, with intervals: proposals.svg.

Usage: build/venv/bin/python experiments/vllm_proposals/figure.py [--rows CSV] [--out FILE]

Reads expected/proposals.csv. Needs the Python package, as `run` does.
"""
import argparse
import csv
import importlib.machinery
import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent.parent / "plots"))
from environment import plt  # noqa: E402 (its folder comes first)
from style import COLOURS, MARKERS, use_style  # noqa: E402

loader = importlib.machinery.SourceFileLoader("proposals", str(HERE / "run"))
proposals = importlib.util.module_from_spec(importlib.util.spec_from_loader("proposals", loader))
loader.exec_module(proposals)

LABELS = {"mean_ttft_ms": "mean TTFT", "p99_ttft_ms": "p99 TTFT", "mean_e2el_ms": "mean latency"}
NAMES = {"ShortestPrompt": "short prompts first", "LeastComputedVictim": "least computed victim",
         "CachedPrefixFirst": "cached prefix first"}


def draw(axes, rows, workload):
    """A row per rule; its metrics are dots with intervals, one below the other."""
    axes.axvline(0, color="#666666", linewidth=0.8)
    for place, rule in enumerate(proposals.RULES[1:]):
        for number, (metric, label) in enumerate(LABELS.items()):
            mean, half = proposals.change(rows, workload, rule, metric)
            axes.errorbar(mean, place + 0.2 * (number - 1), xerr=half, fmt=MARKERS[number],
                          color=COLOURS[number], capsize=2, linewidth=1, markersize=4,
                          label=label if place == 0 else None)
    axes.set_yticks(range(len(NAMES)), NAMES.values())
    axes.set_xlabel("change against vLLM's own rules, %")
    axes.set_title(workload, loc="left")


def main(values):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=pathlib.Path, default=HERE / "expected/proposals.csv")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "proposals.svg")
    arguments = parser.parse_args(values)
    with arguments.rows.open(newline="") as file:
        rows = list(csv.reader(file))
    use_style()
    figure, panels = plt.subplots(1, 2, figsize=(7.0, 2.3), sharey=True, layout="constrained")
    for axes, workload in zip(panels, proposals.WORKLOADS):
        draw(axes, rows, workload)
    panels[0].invert_yaxis()  # of both
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
    figure.savefig(arguments.out, metadata={"Date": None} if arguments.out.suffix == ".svg" else None)


if __name__ == "__main__":
    main(sys.argv[1:])
