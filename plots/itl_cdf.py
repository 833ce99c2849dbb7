"""Gaps between tokens (ITL) of each run: their distribution, and the tail with stalls. Needs
vllm_bench.json with the gaps of every token: `twinserve run --export vllm-detailed` writes it."""
import style
from environment import np
from latency_cdf import limits
from run_data import PlotError, config_fields, config_text, is_measured, lacks, read_json


def gaps_of(run):
    """Milliseconds between tokens, sorted."""
    file = run.path / "vllm_bench.json"
    lists = read_json(file).get("itls") if file.is_file() else None
    if lists is None and is_measured(run.path):
        raise PlotError(lacks(run.path, file.name))
    if lists is None:
        raise PlotError(f"{run.path}: has no gaps between tokens; `twinserve run ... --export "
                        "vllm-detailed` writes them")
    return 1000 * np.sort(np.concatenate([np.asarray(gaps, float) for gaps in lists]
                                         or [np.zeros(0)]))


def stall_threshold(run):
    """Milliseconds."""
    return 1000 * float(config_fields(config_text(run.path)).get("metrics.stall_threshold_s", 0.1))


def thinned(values, shares, most=4000):
    """Points of a curve that no eye can tell from all, both ends included."""
    if len(values) <= most:
        return values, shares
    # Half of them evenly, half in the last hundredth: the tail is drawn enlarged.
    places = np.unique(np.concatenate([np.linspace(0, len(values) - 1, most // 2),
                                       np.linspace(0.99 * len(values), len(values) - 1,
                                                   most // 2)]).astype(int))
    return values[places], shares[places]


def draw_run(axes, tail, run, gaps, threshold, markers):
    gaps = gaps[gaps > 0]  # tokens that arrive together
    count = len(gaps)
    stalls = np.mean(gaps > threshold)
    look = {"color": run.look.colour, "linestyle": run.look.dash, "marker": run.look.marker,
            "markersize": 3, "markevery": markers,
            "label": style.entry(f"{run.label} ({100 * stalls:.2g} % stalls)")}
    values, shares = thinned(gaps, np.arange(1, count + 1) / count)
    axes.step(values, shares, where="post", **look)
    values, above = thinned(gaps, 1 - np.arange(count) / count)
    tail.step(values, above, where="post", **look)


def draw(runs, arguments):
    gaps = [gaps_of(run) for run in runs]
    positive = np.concatenate([values[values > 0] for values in gaps])
    if positive.size == 0:
        raise PlotError("no run has a gap between two tokens")
    thresholds = [stall_threshold(run) for run in runs]
    figure, (axes, tail) = style.panels(2, style.width_of(arguments, 2), 1.9)
    for number, (run, values, threshold) in enumerate(zip(runs, gaps, thresholds)):
        if (values > 0).any():
            draw_run(axes, tail, run, values, threshold, style.stagger(number, len(runs)))
    style.note(axes, [(f"{run.label}: undefined", run.look.colour)
                      for run, values in zip(runs, gaps) if not (values > 0).any()])
    for panel in (axes, tail):
        panel.set_xscale("log")
        panel.set_xlim(limits(positive.min(), positive.max()))
        panel.set_xlabel("gap between tokens (ms)")
        for threshold in sorted(set(thresholds)):
            panel.axvline(threshold, color="#888888", linewidth=0.8, linestyle=(0, (4, 3)),
                          label="_stall")
    axes.annotate("stall", (thresholds[0], 0), xycoords=axes.get_xaxis_transform(), xytext=(3, 4),
                  textcoords="offset points", fontsize=7, color="#666666", annotation_clip=True)
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share of gaps")
    tail.set_yscale("log")
    tail.set_ylabel("share of longer gaps")
    style.legend_above(figure, style.labelled([axes]))
    return figure


if __name__ == "__main__":
    style.main(__doc__, "itl_cdf", draw)
