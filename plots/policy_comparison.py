"""The headline metrics of each run as bars, one panel per metric; times over more than two decades are
points on logarithmic axes."""
import style
from environment import plt

# Name in summary.json, title, factor, kind of axis: times may need a logarithmic one.
PANELS = [
    ("p50_ttft_ms", "median TTFT (s)", 1e-3, "time"),
    ("p99_ttft_ms", "p99 TTFT (s)", 1e-3, "time"),
    ("p99_tpot_ms", "p99 TPOT (ms)", 1, "time"),
    ("p99_itl_ms", "p99 ITL (ms)", 1, "time"),
    ("p99_e2el_ms", "p99 end-to-end (s)", 1e-3, "time"),
    ("good_rate", "goodput (requests/s)", 1, "amount"),
    ("mean_kv_used_share", "mean KV use (%)", 100, "amount"),
    ("preemptions", "preemptions", 1, "amount"),
]


def bar_text(value):
    if value is None:
        return "undefined"
    if value == 0 or value >= 1000:
        return f"{value:.0f}"
    if value < 0.001:
        return "<0.001"
    return f"{value:.3g}"


def draw_points(axes, runs, values):
    """Bars would begin nowhere on a logarithmic axis. Times of 0 are at its left end."""
    positive = [value for value in values if value]
    left = min(positive) / 4 if positive else 1
    right = max(positive) if positive else 1
    axes.set_xscale("log")
    axes.set_xlim(left, right * (right / left) ** 0.35)
    ends = [max(value, left) if value is not None else left for value in values]
    for row, (run, value, end) in enumerate(zip(runs, values, ends)):
        axes.axhline(row, color=style.plt.rcParams["grid.color"], linewidth=0.5)
        if value is not None:
            axes.plot(end, row, color=run.colour, marker=run.look.marker, clip_on=False,
                      **style.face_of(run.verdict, run.colour))
    return ends


def draw_bars(axes, runs, values):
    lengths = [value or 0 for value in values]
    axes.set_xlim(0, 1.35 * max(lengths) if max(lengths) > 0 else 1)
    faces = [style.bar_face(run.verdict, run.colour) for run in runs]
    axes.barh(range(len(runs)), lengths, height=0.7, color=faces,
              edgecolor=[run.colour for run in runs], linewidth=0.8)
    return lengths


def draw_panel(axes, runs, values, title, logarithmic):
    ends = (draw_points if logarithmic else draw_bars)(axes, runs, values)
    for row, (value, end) in enumerate(zip(values, ends)):
        axes.annotate(bar_text(value), (end, row), xytext=(5 if logarithmic else 3, 0),
                      textcoords="offset points", va="center", fontsize=7)
    axes.set_title(f"{title}, log" if logarithmic else title, loc="left")
    axes.set_xticks([])
    axes.minorticks_off()
    axes.grid(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def draw(runs, arguments):
    figure, grid = plt.subplots(2, 4, sharey=True,
                                figsize=(style.width_of(arguments, 2),
                                         1.0 + 0.42 * len(runs)))
    values = {name: [None if run.number(name) is None else factor * run.number(name)
                     for run in runs] for name, _, factor, _ in PANELS}
    # One kind of scale for all times: panels are compared with each other.
    wide = any(style.is_wide([value for value in values[name] if value]) for name, _, _, kind in PANELS if kind == "time")
    for axes, (name, title, _, kind) in zip(grid.flat, PANELS):
        draw_panel(axes, runs, values[name], title, wide and kind == "time")
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(runs)), [style.wrapped(run.label, 1.3, 7) for run in runs])
    grid[0, 0].set_ylim(len(runs) - 0.4, -0.6)
    verdicts = [run.verdict for run in runs]
    style.legend_above(figure, style.verdict_artists(verdicts, bars=True))
    style.remark_verdicts(figure, verdicts, "runs", bars=not wide)
    return figure


if __name__ == "__main__":
    style.main(__doc__, "policy_comparison", draw)
