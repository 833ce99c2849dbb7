#!/usr/bin/env python3
"""Draws what formats of weights gain: speed on a CPU, and users beside speed on two GPUs.

Usage: build/venv/bin/python checks/quantisation/figure.py runs/quantisation [--out FILE]

Reads study/summary.csv and, where it is there, cpu.csv, as checks/quantisation/run writes them.
"""
import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "plots"))
from environment import pd, plt  # noqa: E402 (its folder comes first)
from style import COLUMN_WIDTH, count_text, legend_above, labelled, looks_for, use_style  # noqa: E402

WEIGHTS, CACHE = "system.model_shape.weight_dtype", "system.model_shape.kv_dtype"
TITLES = {"h100": "H100 SXM, predicted", "rtx_4090": "RTX 4090, predicted"}


def draw_device(axes, rows, title, looks):
    """Speed for a user against the throughput of the device; a point per number of users."""
    for name, look in looks.items():
        weights, cache = name
        line = rows[(rows[WEIGHTS] == weights) & (rows[CACHE] == cache)]
        line = line.sort_values("workload.arrivals.users")
        axes.plot(1000 / line["mean_tpot_ms"], line["output_throughput"], color=look.colour,
                  marker=look.marker, linestyle=look.dash, label=label_of(name))
    axes.set(xlabel="tokens/s of a user", ylabel="tokens/s of the device", title=title,
             yscale="log", xlim=(0, None))
    axes.yaxis.set_major_formatter(count_text)


def label_of(name):
    weights, cache = name
    return weights if cache == "bf16" else f"{weights}, cache {cache}"


def draw_cpu(axes, rows, looks):
    """Decode against bf16, by batch."""
    batches = sorted(int(key.split("_")[1]) for key in rows if key.endswith("_tokens_per_s")
                     and key.startswith("decode_"))
    for dtype in rows["format"].drop_duplicates():
        look = looks.get((dtype, "bf16"), looks["int8"])
        mine = rows[rows["format"] == dtype]
        columns = [mine[f"decode_{batch}_tokens_per_s"] for batch in batches]
        middle = [column.median() for column in columns]
        axes.errorbar(batches, middle,
                      yerr=[[m - c.min() for m, c in zip(middle, columns)],
                            [c.max() - m for m, c in zip(middle, columns)]],
                      color=look.colour, marker=look.marker, linestyle=look.dash, label=dtype)
    axes.set(xlabel="requests in the batch", ylabel="tokens/s", title="this CPU, measured",
             xscale="log", xticks=batches, ylim=(0, None))
    axes.xaxis.set_major_formatter(count_text)
    axes.minorticks_off()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("quantisation.svg"))
    arguments = parser.parse_args()
    use_style()
    plt.rcParams["svg.fonttype"] = "none"
    wanted = {"base", WEIGHTS, CACHE, "workload.arrivals.users", "mean_tpot_ms",
              "output_throughput"}
    study = pd.read_csv(arguments.runs / "study/summary.csv", usecols=lambda name: name in wanted)
    study["device"] = [pathlib.Path(base).stem for base in study["base"]]
    names = list(study[[WEIGHTS, CACHE]].drop_duplicates().itertuples(index=False, name=None))
    looks = dict(zip([*names, "int8"], looks_for([None] * (len(names) + 1))))
    measured = arguments.runs / "cpu.csv"
    panels = len(TITLES) + measured.is_file()
    figure, grid = plt.subplots(1, panels, figsize=(COLUMN_WIDTH * panels / 1.4, 2.6))
    for axes, (device, title) in zip(grid, TITLES.items()):
        rows = study[study["device"] == device]
        draw_device(axes, rows, title, {name: looks[name] for name in names})
    if measured.is_file():
        draw_cpu(grid[-1], pd.read_csv(measured), looks)
    legend_above(figure, labelled(grid))
    figure.savefig(arguments.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
