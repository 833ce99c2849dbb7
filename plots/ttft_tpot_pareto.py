"""Time to first token against time per output token: one point per configuration and load; the
points of one configuration look alike. The stepped lines are frontiers, one per load: no point of
that load has both latencies shorter. Saturated points are hollow and not on a frontier."""
import style
from pareto import draw_pareto
from points import read_points, selection_options


def draw(points, arguments):
    return draw_pareto(points, arguments, arguments.x, arguments.y, (-1, -1), by_load=True)


def options(parser):
    selection_options(parser)
    parser.add_argument("--x", default="p99_ttft_ms", metavar="KEY",
                        help="key of summary.json to the right (default: p99_ttft_ms)")
    parser.add_argument("--y", default="p99_tpot_ms", metavar="KEY",
                        help="key of summary.json upwards (default: p99_tpot_ms)")
    parser.add_argument("--write", metavar="COLUMN", help="write this setting beside each point")


if __name__ == "__main__":
    style.main(__doc__, "ttft_tpot_pareto", draw, read_points, "STUDY|RUN_DIR", options)
