"""Any metric against any setting of a study, one line per combination of all other settings; with --bars
a group of bars for each value, which need not be a number."""
import style
from environment import pd
from lines import draw_bar_panels, draw_panels, legend_handles
from points import read_points, selection_options
from run_data import PlotError


def numeric_setting(points):
    """The setting with the most values that are numbers."""
    counts = {name: points.table[name].nunique() for name in points.settings
              if pd.to_numeric(points.table[name], errors="coerce").notna().all()}
    if not counts:
        raise PlotError(f"{points.source}: varies no number; name a column with --x")
    return max(counts, key=counts.get)


def draw(points, arguments):
    x = arguments.x or numeric_setting(points)
    metrics = arguments.y.split(",")
    width = style.width_of(arguments, min(len(metrics), 2))
    figure, panels = style.panels(len(metrics), width, 1.9)
    if arguments.bars:
        handles = draw_bar_panels(panels, points, x, metrics, arguments)
    else:
        handles = legend_handles(draw_panels(panels, points, x, metrics, arguments))
    style.legend_above(figure, handles)
    return figure


def options(parser):
    selection_options(parser)
    parser.add_argument("--x", metavar="COLUMN",
                        help="the setting to the right (default: the one with the most values)")
    parser.add_argument("--y", default="p99_ttft_ms", metavar="KEY,...",
                        help="keys of summary.json, a panel each (default: p99_ttft_ms)")
    parser.add_argument("--bars", action="store_true",
                        help="bars, a group for each value of --x; points where the values need a "
                             "logarithmic axis")
    parser.add_argument("--colour", metavar="COLUMN",
                        help="a setting whose values have colours; the others have markers and "
                             "dashes (default: every line has its own)")


if __name__ == "__main__":
    style.main(__doc__, "metric_vs_parameter", draw, read_points, "STUDY|RUN_DIR", options)
