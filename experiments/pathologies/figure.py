#!/usr/bin/env python3
"""Draws each policy among all others in the situations of this folder: docs/policies/NAME.svg.

Usage: build/venv/bin/python experiments/pathologies/figure.py [--out DIR]

Reads expected/pathologies.csv.
"""
import argparse
import csv
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(ROOT / "plots")]
from environment import plt  # noqa: E402 (their folders come first)
from policies import policy_named  # noqa: E402
from situations import SITUATIONS  # noqa: E402
from style import use_style  # noqa: E402

TITLES = {"stall": "stall: longest gap", "blocking": "blocking: median TTFT",
          "starved_decodes": "starved decodes: p90 TPOT", "reservation": "reservation: median TTFT",
          "thrash": "thrash: computed again", "convoy": "convoy: mean E2E",
          "padding": "padding: share of tokens"}


def number(text):
    return float(text.replace(",", "")) if text != "-" else None


def draw_situation(axes, situation, rows, chosen):
    """One row of dots: all policies in grey, the chosen one in its colour."""
    values = {row["policy"]: number(row[situation.key]) for row in rows}
    known = {name: value for name, value in values.items() if value is not None}
    if max(known.values()) > 5 * min(known.values()) > 0:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    for name, value in known.items():
        if name != chosen:
            axes.plot(value, 0, "o", color="#BBBBBB", markersize=5, zorder=1)
    if chosen in known:
        style = policy_named(chosen)
        axes.plot(known[chosen], 0, style.marker, color=style.colour, markersize=8, zorder=2)
    axes.set_yticks([])
    axes.set_title(f"{TITLES[situation.key]}, {situation.unit}", loc="left", fontsize=8)
    axes.tick_params(labelsize=7)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)


def draw(rows, chosen, file):
    figure, panels = plt.subplots(len(SITUATIONS), 1, figsize=(5.5, 4.6))
    for axes, situation in zip(panels, SITUATIONS):
        draw_situation(axes, situation, rows, chosen)
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/policies")
    arguments = parser.parse_args()
    use_style()
    plt.rcParams["svg.fonttype"] = "none"
    with open(HERE / "expected/pathologies.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    arguments.out.mkdir(parents=True, exist_ok=True)
    for row in rows:
        draw(rows, row["policy"], arguments.out / f"{row['policy']}.svg")


if __name__ == "__main__":
    main()
