"""Draws absolute errors by simulator and metric: a point per run, and the mean's interval."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "plots"))
from environment import plt  # noqa: E402 (its folder comes first)
from matplotlib.ticker import NullFormatter  # noqa: E402
import style  # noqa: E402
import tables  # noqa: E402
from prediction import METRICS  # noqa: E402

LEAST = 0.01  # percent; the table has two decimals
SETS = {"residency_h100_qwen14b": ("#0072B2", "o"), "blis16_requests": ("#D55E00", "s"),
        "lss_vllm_bench": ("#009E73", "D")}
OTHER_SET = ("#000000", "x")


def draw_metric(axes, cells, names):
    for row, name in enumerate(names):
        mine = [cell for cell in cells if cell["simulator"] == name]
        for data_set in sorted({cell["data_set"] for cell in mine}):
            colour, marker = SETS.get(data_set, OTHER_SET)
            for part, face in (("judge", colour), ("fit", "none")):
                chosen = [cell for cell in mine
                          if (cell["data_set"], cell["part"]) == (data_set, part)]
                sizes = [max(LEAST, abs(error)) for error in tables.errors_of(chosen)]
                axes.scatter(sizes, [row] * len(sizes), s=10, marker=marker, edgecolors=colour,
                             facecolors=face, linewidths=0.6)
        if mine:
            mean, half = tables.mean_and_half([abs(error) for error in tables.errors_of(mine)])
            axes.plot([mean], [row + 0.3], color="black", marker="^", markersize=3)
            if half:
                axes.plot([max(LEAST, mean - half), mean + half], [row + 0.3] * 2,
                          color="black", linewidth=0.8)
    axes.set(xscale="log", xlim=(LEAST * 0.8, 300), xlabel="absolute error (%)")
    axes.set_xticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
    axes.xaxis.set_minor_formatter(NullFormatter())


def legend(figure, cells):
    present = {cell["data_set"] for cell in cells}
    marks = [plt.Line2D([], [], color=colour, marker=marker, linestyle="none", markersize=3.5,
                        label=name) for name, (colour, marker) in SETS.items() if name in present]
    marks += [plt.Line2D([], [], color="black", marker="^", markersize=3, linewidth=0.8,
                         label="mean, its 95 % interval"),
              plt.Line2D([], [], color="#888888", marker="o", markerfacecolor="none",
                         linestyle="none", markersize=3.5, label="hollow: fitted to the run")]
    figure.legend(handles=marks, loc="outside upper center", ncols=3, frameon=False)


def draw(source, target):
    cells = tables.read_csv(source)
    names = tables.names_of(cells)
    style.use_style()
    figure, panels = plt.subplots(1, 3, sharey=True, layout="constrained",
                                  figsize=(style.TEXT_WIDTH, 0.32 * len(names) + 1.2))
    for axes, metric in zip(panels, METRICS):
        draw_metric(axes, [cell for cell in cells if cell["metric"] == metric], names)
        axes.set_title(f"mean {metric.upper()}")
        axes.grid(axis="x", color="#DDDDDD", linewidth=0.4)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    legend(figure, cells)
    figure.savefig(target)
    print(f"referee: wrote {target}", file=sys.stderr)
