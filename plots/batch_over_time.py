"""The composition of batches over time, one row per run: prefill and decode tokens per step, and
sequences per step. Needs steps.csv."""
import style
from environment import matplotlib, np, plt
from run_data import PlotError, config_fields, config_text

Patch = matplotlib.patches.Patch

COLUMNS = ["started_s", "finished_s", "prefill_tokens", "decode_tokens", "sequences"]
BINS = 300  # more steps than this are averaged
ROW_HEIGHT = 1.1  # inches
BUDGET = {"color": "#444444", "linewidth": 0.8, "linestyle": (0, (4, 3))}
# Rows have the colours of their policies, prefill a pale one; the common legend is grey.
LEGEND = {"decode": Patch(color="#333333", linewidth=0),
          "prefill": Patch(color="#333333", alpha=style.FAINT, linewidth=0)}
BUDGETS = ("max_num_batched_tokens", "chunk_size", "token_budget", "max_num_scheduled_tokens")


def token_budget(run):
    """The policy's limit of tokens per step, if it has one."""
    fields = config_fields(config_text(run.path))
    found = [int(fields[name]) for budget in BUDGETS
             if (name := f"policy.{run.policy}.{budget}") in fields and int(fields[name]) > 0]
    return found[0] if found else None


def batches(table, begin, end):
    """Edges in time, and prefill tokens, decode tokens and sequences per step between them."""
    if len(table) <= BINS:  # every step for itself
        edges = np.append(table["started_s"].to_numpy(), table["finished_s"].to_numpy()[-1:])
        return edges, table[COLUMNS[2:]].to_numpy(float)
    edges = np.linspace(begin, end, BINS + 1)
    bins = np.clip(np.searchsorted(edges, table["finished_s"], side="right") - 1, 0, BINS - 1)
    means = table.groupby(bins)[COLUMNS[2:]].mean().reindex(range(BINS))
    # No step ends in a bin: it is inside of a long one, or nothing runs.
    middles = (edges[1:] + edges[:-1]) / 2
    next_step = np.searchsorted(table["finished_s"], middles).clip(max=len(table) - 1)
    running = table["started_s"].to_numpy()[next_step] <= middles
    running &= middles < table["finished_s"].to_numpy()[next_step]
    inside = table[COLUMNS[2:]].to_numpy(float)[next_step] * running[:, None]
    return edges, np.where(means.isna(), inside, means)


def last_values(table, values, end):
    """Zeros, the values after the last step of a run that ends before the axis does; where the axis
    cuts the run, its values go on."""
    return np.zeros(values.shape[1]) if table["finished_s"].max() < end else values[-1]


def draw_run(tokens, sequences, run, table, begin, end):
    edges, values = batches(table, begin, end)
    prefill, decode, count = np.vstack([values, last_values(table, values, end)]).T
    tokens.fill_between(edges, decode, step="post", color=run.look.colour, linewidth=0)
    tokens.fill_between(edges, decode, decode + prefill, step="post", color=run.look.colour,
                        alpha=style.FAINT, linewidth=0)
    budget = token_budget(run)
    if budget is not None and budget < 3 * (decode + prefill).max():
        tokens.axhline(budget, label="token budget", **BUDGET)
    sequences.step(edges, count, where="post", color=run.look.colour, linewidth=1)


def draw(runs, arguments):
    tables = [run.table("steps.csv", COLUMNS) for run in runs]
    ends = [table["finished_s"].max() for table in tables if not table.empty]
    if not ends:
        raise PlotError("no run has a step")
    begin = arguments.begin
    end = arguments.end if arguments.end is not None else max(ends)
    if not begin < end:
        raise PlotError(f"--begin {begin:g} --end {end:g}: allowed: begin before end")
    figure, grid = plt.subplots(len(runs), 2, squeeze=False, sharex=True, sharey="col",
                                figsize=(style.width_of(arguments, 2),
                                         0.75 + ROW_HEIGHT * len(runs)))
    for row, run, table in zip(grid, runs, tables):
        style.name_row(row[0], run.label, ROW_HEIGHT)
        table = table[(table["finished_s"] > begin) & (table["started_s"] < end)]
        if table.empty:
            for axes in row:
                style.write_empty_panel(axes, "no steps")
            continue
        draw_run(*row, run, table, begin, end)
    for axes, title in zip(grid[0], ("tokens per step", "sequences per step")):
        axes.set_title(title)
        axes.set_ylim(bottom=0)  # last, because it ends the scaling of the axes that rows share
        axes.yaxis.set_major_formatter(style.count_text)
    for axes in grid[-1]:
        axes.set_xlim(begin, end)
        axes.set_xlabel("time (s)")
    style.legend_above(figure, LEGEND | style.labelled(grid[:, 0]))
    return figure


def options(parser):
    parser.add_argument("--begin", type=float, default=0, metavar="SECONDS",
                        help="draw from this time of the run (default: 0)")
    parser.add_argument("--end", type=float, metavar="SECONDS",
                        help="draw until this time of the run (default: its end)")


if __name__ == "__main__":
    style.main(__doc__, "batch_over_time", draw, options=options)
