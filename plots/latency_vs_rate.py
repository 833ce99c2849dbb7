"""Latencies against the load: one panel per metric, one line per configuration, from a study or
run directories."""
import style
from lines import draw_panels, factor_of, legend_handles
from points import load_column, load_options, read_points
from run_data import PlotError

METRICS = "mean_ttft_ms,p99_ttft_ms,p99_tpot_ms"


def parse_bound(text):
    name, sign, value = text.partition("=")
    try:
        return name, float(value) if sign else float("nan")
    except ValueError:
        raise PlotError(f"--slo {text}: is no bound; for example p99_ttft_ms=1000") from None


def draw(points, arguments):
    x = load_column(points, arguments.x)
    metrics = arguments.metrics.split(",")
    figure, panels = style.panels(len(metrics), style.width_of(arguments, 2), 1.9)
    bounds = dict(map(parse_bound, arguments.slo or []))
    lines = draw_panels(panels, points, x, metrics, arguments)
    for axes, metric in zip(panels, metrics):
        if metric in bounds:
            axes.axhline(bounds[metric] * factor_of(metric), color="#888888", linewidth=0.8,
                         linestyle=(0, (4, 3)), label="_slo")
    style.legend_above(figure, legend_handles(lines))
    return figure


def options(parser):
    load_options(parser)
    parser.add_argument("--metrics", default=METRICS, metavar="KEY,...",
                        help=f"keys of summary.json, a panel each (default: {METRICS})")
    parser.add_argument("--slo", action="append", metavar="KEY=BOUND",
                        help="draws a bound into the panel of a metric; may be repeated")


if __name__ == "__main__":
    style.main(__doc__, "latency_vs_rate", draw, read_points, "STUDY|RUN_DIR", options)
