"""Distributions of TTFT, TPOT and end-to-end latency over the requests of each run."""
import style
from environment import np

PANELS = [("ttft_ms", "time to first token (ms)"), ("tpot_ms", "time per output token (ms)"),
          ("e2el_ms", "end-to-end latency (ms)")]


def draw_curve(axes, run, values, markers):
    values = np.sort(values)
    shares = np.arange(1, len(values) + 1) / len(values)
    axes.step(np.concatenate(([values[0]], values)), np.concatenate(([0], shares)), where="post",
              color=run.colour, linestyle=run.look.dash, marker=run.look.marker, markersize=3,
              markevery=markers, label=style.entry(run.label))


def limits(low, high):
    """The limits of the time axis, with no value at an end: at least one decade, because only powers
    of ten have labels."""
    if high > 10 * low:
        return low / 1.3, high * 1.3
    return 10 ** np.floor(np.log10(low / 1.01)), 10 ** np.ceil(np.log10(1.01 * high))


def draw_panel(axes, runs, tables, column, title):
    times = [tables[run.path][column].dropna().to_numpy(float) for run in runs]
    positive = np.concatenate([values[values > 0] for values in times])
    axes.set_xlabel(title)
    axes.set_ylim(0, 1.02)
    if positive.size == 0:
        style.write_empty_panel(axes, "undefined" if all(values.size == 0 for values in times)
                                else "always 0")
        axes.set_xticks([])
        return
    axes.set_xscale("log")
    axes.set_xlim(limits(positive.min(), positive.max()))
    notes = []
    for number, (run, values) in enumerate(zip(runs, times)):
        if values.size > 0:
            draw_curve(axes, run, values, style.stagger(number, len(runs)))
        if values.size == 0:
            notes.append((f"{run.label}: undefined", run.colour))
        elif values.max() == 0:  # a logarithmic axis has no place for it
            notes.append((f"{run.label}: always 0", run.colour))
    style.note(axes, notes)


def draw(runs, arguments):
    tables = {run.path: run.table("requests.csv", [name for name, _ in PANELS]) for run in runs}
    figure, panels = style.panels(len(PANELS), style.width_of(arguments, 2), 1.7,
                                  sharey=True)
    for axes, (column, title) in zip(panels, PANELS):
        draw_panel(axes, runs, tables, column, title)
    panels[0].set_ylabel("share of requests")
    style.legend_above(figure, style.labelled(panels))
    return figure


if __name__ == "__main__":
    style.main(__doc__, "latency_cdf", draw)
