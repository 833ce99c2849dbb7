"""Tokens per second that a user sees against what the devices give for it: output tokens per second
and GPU, per megawatt of the GPUs' mean power or of the power that they may draw, or for a dollar
(--per). The two ends of the trade-off between interactivity and cost. A user's tokens per second are
1 / mean TPOT; the number of GPUs is that of all replicas, or --gpus. A line joins the loads of one
configuration; the stepped line is the frontier."""
import style
from environment import np
from lines import NAMES
from pareto import draw_pareto
from points import read_points, selection_options
from run_data import PlotError

USER = "tokens_per_s_user"
# The column on the y axis, its label, and the metric that it is made of.
YIELDS = {"gpu": ("tokens_per_s_gpu", "output tokens/s per GPU", "output_throughput"),
          "mw": ("tokens_per_s_mw", "output tokens/s per MW", "mean_power_w"),
          "provisioned_mw": ("tokens_per_s_provisioned_mw", "output tokens/s per provisioned MW",
                             "provisioned_power_w"),
          "dollar": ("tokens_per_dollar", "output tokens per $",
                     "cost_per_million_output_tokens_usd")}
NAMES.update({USER: "tokens/s per user (1 / mean TPOT)"},
             **{column: label for column, label, _ in YIELDS.values()})


def gpus(points, asked):
    """GPUs of each point."""
    if asked is not None:
        return np.full(len(points.table), asked)
    if "devices" not in points.table:
        raise PlotError(f"{points.source}: has no column devices: measured, or made by an earlier "
                        "version; give --gpus")
    return points.numbers("devices").to_numpy()


def yields(points, arguments):
    """Output tokens per second and GPU or MW, or for a dollar."""
    metric = YIELDS[arguments.per][2]
    if metric not in points.table:
        raise PlotError(f"{points.source}: has no column {metric}, which --per {arguments.per} "
                        "needs: the data sheet of the devices does not know it")
    if arguments.per == "dollar":
        return 1e6 / points.numbers(metric)
    # A measured run has its client's rates alone.
    steady = "output_token_rate" in points.table
    output = points.numbers("output_token_rate" if steady else "output_throughput")
    if arguments.per in ("mw", "provisioned_mw"):
        return output / (points.numbers(metric) / 1e6)
    return output / gpus(points, arguments.gpus)


def draw(points, arguments):
    column = YIELDS[arguments.per][0]
    points.table[USER] = (1000 / points.numbers("mean_tpot_ms")).replace(np.inf, np.nan)
    points.table[column] = yields(points, arguments)
    if points.table[[USER, column]].dropna().empty:
        raise PlotError(f"{points.source}: no point has both a TPOT and output tokens")
    return draw_pareto(points, arguments, USER, column, (1, 1), by_load=False)


def options(parser):
    selection_options(parser)
    parser.add_argument("--per", choices=list(YIELDS), default="gpu",
                        help="what the y axis counts output tokens by (default: gpu)")
    parser.add_argument("--gpus", type=float, metavar="N",
                        help="GPUs of every point (default: as configured in the run, or as varied "
                             "by the study, else 1)")
    parser.add_argument("--write", metavar="COLUMN",
                        help="write this setting beside each point, for example the rate")


if __name__ == "__main__":
    style.main(__doc__, "user_vs_gpu_throughput", draw, read_points, "STUDY|RUN_DIR", options)
