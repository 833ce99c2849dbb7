"""The headline metrics of each run as bars, one panel per metric."""
import style
from environment import np, plt

# Name in summary.json, title, factor, kind of axis: times may need a logarithmic one.
PANELS = [
    ("p50_ttft_ms", "median TTFT (s)", 1e-3, "time"),
    ("p99_ttft_ms", "p99 TTFT (s)", 1e-3, "time"),
    ("p99_tpot_ms", "p99 TPOT (ms)", 1, "time"),
    ("p99_itl_ms", "p99 ITL (ms)", 1, "time"),
    ("p99_e2el_ms", "p99 end-to-end (s)", 1e-3, "time"),
    ("request_goodput", "goodput (requests/s)", 1, "amount"),
    ("mean_kv_used_share", "mean KV use (%)", 100, "amount"),
    ("preemptions", "preemptions", 1, "amount"),
]
LOG_FROM = 30  # ratio of the longest to the shortest bar


def bar_text(value):
    if value is None:
        return "-"
    if value == 0 or value >= 1000:
        return f"{value:.0f}"
    if value < 0.001:
        return "<0.001"
    return f"{value:.3g}"


def draw_panel(axes, runs, values, title, kind):
    rows = np.arange(len(runs))
    lengths = np.array([0.0 if value is None else value for value in values])
    positive = lengths[lengths > 0]
    if kind == "time" and positive.size > 0 and positive.max() > LOG_FROM * positive.min():
        axes.set_xscale("log")
        title += ", log"
        left = positive.min() / 4
        axes.set_xlim(left, positive.max() * (positive.max() / left) ** 0.35)
    else:
        axes.set_xlim(0, 1.35 * lengths.max() if lengths.max() > 0 else 1)
    axes.barh(rows, lengths, height=0.7, color=[run.colour for run in runs])
    start = axes.get_xlim()[0]
    for row, value, length in zip(rows, values, lengths):
        axes.annotate(bar_text(value), (max(length, start), row), xytext=(3, 0),
                      textcoords="offset points", va="center", fontsize=7)
    axes.set_title(title, loc="left")
    axes.set_xticks([])
    axes.minorticks_off()
    axes.grid(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def draw(runs, arguments):
    figure, grid = plt.subplots(2, 4, sharey=True,
                                figsize=(arguments.width or style.TEXT_WIDTH,
                                         1.0 + 0.42 * len(runs)))
    for axes, (name, title, factor, kind) in zip(grid.flat, PANELS):
        numbers = [run.number(name) for run in runs]
        values = [None if number is None else factor * number for number in numbers]
        draw_panel(axes, runs, values, title, kind)
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(runs)), [run.label for run in runs])
    grid[0, 0].set_ylim(len(runs) - 0.4, -0.6)
    return figure


if __name__ == "__main__":
    style.main(__doc__, "policy_comparison", draw)
