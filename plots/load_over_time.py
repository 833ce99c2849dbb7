"""Requests in the system, KV cache use and tokens per second over time, one row per run."""
import style
from environment import matplotlib, plt

Line2D, Patch = matplotlib.lines.Line2D, matplotlib.patches.Patch

COLUMNS = ["time_s", "waiting", "running", "kv_used_share", "prefill_tokens_per_s",
           "decode_tokens_per_s"]
ROW_HEIGHT = 1.05
WIDE = 200  # requests from which on a linear axis would hide a batch of ten beside the queue
LONG = 1.5  # runs longer than this times the median run are cut
TITLES = ["requests", "KV cache in use (%)", "tokens per second"]
FAINT = 0.4  # opacity of areas in panels with two quantities
# Rows have the colours of their policies; the common legend is grey.
LEGEND = {"running": Line2D([], [], color="#333333", linewidth=1),
          "decode": Patch(color="#333333", linewidth=0),
          "waiting (left), prefill (right)": Patch(color="#333333", alpha=FAINT, linewidth=0)}


def draw_requests(axes, table, colour):
    axes.fill_between(table["time_s"], table["waiting"], color=colour, alpha=FAINT, linewidth=0)
    axes.plot(table["time_s"], table["running"], color=colour, linewidth=1)


def draw_memory(axes, table, colour):
    axes.fill_between(table["time_s"], 100 * table["kv_used_share"], step="post", color=colour,
                      linewidth=0)
    axes.set_ylim(0, 102)


def draw_tokens(axes, table, colour):
    prefill, decode = table["prefill_tokens_per_s"], table["decode_tokens_per_s"]
    axes.fill_between(table["time_s"], decode, decode + prefill, step="post", color=colour,
                      alpha=FAINT, linewidth=0)
    axes.fill_between(table["time_s"], decode, step="post", color=colour, linewidth=0)
    axes.yaxis.set_major_formatter(style.count_text)


def shown_until(tables):
    """The end of the time axis: that of the longest run, unless others would be too short."""
    ends = sorted(table["time_s"].iloc[-1] for table in tables if not table.empty)
    if not ends or ends[-1] == 0:
        return 1
    middle = ends[len(ends) // 2]
    return ends[-1] if ends[-1] <= LONG * middle else 1.05 * middle


def draw(runs, arguments):
    tables = [run.table("series.csv", COLUMNS) for run in runs]
    figure, grid = plt.subplots(len(runs), 3, squeeze=False, sharex=True, sharey="col",
                                figsize=(style.width_of(arguments, 2),
                                         0.75 + ROW_HEIGHT * len(runs)))
    until = shown_until(tables)
    for row, run, table in zip(grid, runs, tables):
        style.name_row(row[0], run.label, ROW_HEIGHT, color=run.colour)
        if table.empty:
            for axes in row:
                style.write_empty_panel(axes, "empty run")
            continue
        for axes, panel in zip(row, (draw_requests, draw_memory, draw_tokens)):
            panel(axes, table, run.colour)
        if table["time_s"].iloc[-1] > until:
            row[1].set_title(f"goes on until {table['time_s'].iloc[-1]:.0f} s", loc="right",
                             fontsize=style.NOTE_SIZE, color="#666666", pad=2)
    if max((table[["waiting", "running"]].max().max() for table in tables if not table.empty),
           default=0) > WIDE:
        for axes in grid[:, 0]:
            axes.set_yscale("symlog", linthresh=10)
            axes.yaxis.set_major_formatter(style.count_text)
    # Last, because it ends the scaling of the axes that the rows share.
    grid[0, 0].set_ylim(bottom=0)
    grid[0, 2].set_ylim(bottom=0)
    for axes, title in zip(grid[0], TITLES):
        axes.annotate(title, (0.5, 1), xytext=(0, 12), xycoords="axes fraction",
                      textcoords="offset points", ha="center")
    for axes in grid[-1]:
        axes.set_xlim(0, until)
        axes.set_xlabel("time (s)")
    style.legend_above(figure, LEGEND)
    return figure


if __name__ == "__main__":
    style.main(__doc__, "load_over_time", draw)
