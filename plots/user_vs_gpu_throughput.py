"""Tokens per second that a user sees against output tokens per second and GPU: the two ends of the
trade-off between interactivity and cost. A user's tokens per second are 1 / mean TPOT; the number
of GPUs is that of all replicas, or --gpus. A line joins the loads
of one configuration; the stepped line is the frontier."""
import style
from environment import np
from lines import NAMES
from pareto import draw_pareto
from points import read_points, selection_options
from run_data import PlotError

USER, GPU = "tokens_per_s_user", "tokens_per_s_gpu"
NAMES.update({USER: "tokens/s per user (1 / mean TPOT)", GPU: "output tokens/s per GPU"})


def gpus(points, asked):
    """GPUs of each point."""
    if asked is not None:
        return np.full(len(points.table), asked)
    if "devices" not in points.table:
        raise PlotError(f"{points.source}: has no column devices: made by an earlier version; "
                        "give --gpus")
    return points.numbers("devices").to_numpy()


def draw(points, arguments):
    points.table[USER] = (1000 / points.numbers("mean_tpot_ms")).replace(np.inf, np.nan)
    points.table[GPU] = points.numbers("output_throughput") / gpus(points, arguments.gpus)
    if points.table[[USER, GPU]].dropna().empty:
        raise PlotError(f"{points.source}: no point has both a TPOT and output tokens")
    return draw_pareto(points, arguments, USER, GPU, (1, 1), by_load=False)


def options(parser):
    selection_options(parser)
    parser.add_argument("--gpus", type=float, metavar="N",
                        help="GPUs of every point (default: as configured in the run, or as varied "
                             "by the study, else 1)")
    parser.add_argument("--write", metavar="COLUMN",
                        help="write this setting beside each point, for example the rate")


if __name__ == "__main__":
    style.main(__doc__, "user_vs_gpu_throughput", draw, read_points, "STUDY|RUN_DIR", options)
