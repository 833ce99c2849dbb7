"""Goodput against offered rate, one line per policy."""
import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

import style
from policies import POLICIES, policy_named


def offered_rate(run):
    """Requests per second from the first to the last arrival; None with fewer than two requests."""
    arrivals = run.table("requests.csv", ["arrival_s"])["arrival_s"]
    span = arrivals.max() - arrivals.min() if len(arrivals) > 1 else 0
    return (len(arrivals) - 1) / span if span > 0 else None


def points_of(runs):
    """(offered rate, goodput) by policy, in order of increasing rate."""
    points = {}
    for run in runs:
        if "request_goodput" not in run.summary:
            raise style.PlotError(f"{run.path}: has no goodput, because its experiment sets no slo")
        offered, good = offered_rate(run), run.number("request_goodput")
        if offered is not None and good is not None:
            points.setdefault(run.policy, []).append((offered, good))
    known = [policy for policy in POLICIES if policy in points]
    return {policy: sorted(points[policy])
            for policy in known + [policy for policy in points if policy not in POLICIES]}


def draw(runs):
    points = points_of(runs)
    figure, axes = plt.subplots(figsize=(style.COLUMN_WIDTH, 3.4))
    axes.set_xlabel("offered (requests/s)")
    axes.set_ylabel("within the goal (requests/s)")
    if not points:
        style.write_empty_panel(axes, "no run has two requests")
        return figure
    top = 1.08 * max(offered for pairs in points.values() for offered, _ in pairs)
    axes.plot([0, top], [0, top], color="#999999", linewidth=0.7, linestyle=(0, (4, 3)))
    axes.annotate("goodput = offered rate", (top / 2, top / 2), xytext=(-5, 5),
                  textcoords="offset points", ha="center", va="center", rotation=45,
                  color="#666666", fontsize=7)
    for policy, pairs in points.items():
        look = policy_named(policy)
        axes.plot(*zip(*pairs), color=look.colour, marker=look.marker, markersize=4, clip_on=False,
                  label=look.label)
    axes.set_xlim(0, top)
    axes.set_ylim(0, top)
    axes.set_aspect("equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6))
    style.legend_above(figure, style.labelled([axes]))
    return figure


if __name__ == "__main__":
    style.main(__doc__, "goodput_vs_rate", draw)
