"""Goodput against the load: requests per second that keep every bound of the experiment's slo, one
line per configuration. On the diagonal every request does."""
import style
from environment import plt
from lines import (draw_line, legend_handles, lines_of, metric_label, note_undefined,
                   remark_points)
from points import load_column, load_options, read_points
from run_data import PlotError


def draw(points, arguments):
    if "good_rate" not in points.table:
        raise PlotError(f"{points.source}: no goodput, because the experiments set no slo")
    x = load_column(points, arguments.x or "offered_rate")
    figure, axes = plt.subplots(figsize=(style.width_of(arguments, 1), 3.4))
    lines = lines_of(points, x, "good_rate", arguments)
    top = 1.06 * points.numbers(x).max() or 1
    note_undefined(axes, lines)
    axes.plot([0, top], [0, top], color="#999999", linewidth=0.7, linestyle=(0, (4, 3)),
              label="_diagonal")
    axes.annotate("goodput = offered load", (top / 2, top / 2), xytext=(-5, 5),
                  textcoords="offset points", ha="center", va="center", rotation=45,
                  color="#666666", fontsize=7)
    for line in lines:
        draw_line(axes, line)
    axes.set_xlim(0, top)
    axes.set_ylim(0, top)
    axes.set_aspect("equal")
    axes.set_xlabel(metric_label(x))
    axes.set_ylabel(metric_label("good_rate"))
    style.legend_above(figure, legend_handles(lines))
    remark_points(figure, lines)
    return figure


if __name__ == "__main__":
    style.main(__doc__, "goodput_vs_rate", draw, read_points, "STUDY|RUN_DIR", load_options)
