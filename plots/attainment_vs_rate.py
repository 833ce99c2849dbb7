"""SLO attainment against the load: the share of requests that keep every bound of the experiment's
slo, one line per configuration. Where a line falls below the target, the load is the capacity: a
vertical line marks it."""
import style
from environment import np, plt
from lines import (draw_line, legend_handles, lines_of, metric_label, note_undefined,
                   remark_points, scale_x)
from points import load_column, load_options, read_points


def capacity(line, target):
    """The load at which the line first falls below the target; None if it never does, or from the
    first point on."""
    x, y = line.table["x"].to_numpy(), line.table["y"].to_numpy()
    below = np.flatnonzero(y < target)
    if below.size == 0 or below[0] == 0:
        return None
    after = below[0]
    share = (y[after - 1] - target) / (y[after - 1] - y[after])
    return x[after - 1] + share * (x[after] - x[after - 1])


def draw(points, arguments):
    x = load_column(points, arguments.x)
    figure, axes = plt.subplots(figsize=(style.width_of(arguments, 1), 2.7))
    lines = lines_of(points, x, "slo_attainment", arguments)
    axes.axhline(arguments.target, color="#888888", linewidth=0.8, linestyle=(0, (4, 3)))
    axes.annotate(f"{arguments.target:g} %", (0, arguments.target),
                  xycoords=axes.get_yaxis_transform(), xytext=(3, -8), textcoords="offset points",
                  fontsize=7, color="#666666")
    for line in lines:
        draw_line(axes, line)
        at = capacity(line, arguments.target)
        if at is not None:
            axes.plot([at, at], [0, arguments.target], color=line.look.colour, linewidth=0.7,
                      linestyle=line.look.dash, label="_capacity")
    axes.set_ylim(0, 104)
    scale_x(axes, lines)
    note_undefined(axes, lines)
    axes.set_xlabel(metric_label(x))
    axes.set_ylabel(metric_label("slo_attainment"))
    style.legend_above(figure, legend_handles(lines))
    remark_points(figure, lines)
    return figure


def options(parser):
    load_options(parser)
    parser.add_argument("--target", type=float, default=90, metavar="PERCENT",
                        help="share of requests that must keep the SLO (default: 90)")


if __name__ == "__main__":
    style.main(__doc__, "attainment_vs_rate", draw, read_points, "STUDY|RUN_DIR", options)
