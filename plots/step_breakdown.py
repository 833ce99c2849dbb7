"""Where the time of a step goes: the mean milliseconds of each part, one bar per run and kind of
step. Needs steps.csv and parts.csv, which runs with outputs { record: true } have, simulated ones
with cost { profile {} } only."""
import style
from environment import np, plt
from run_data import PlotError

# Title, colour, hatch: neighbours differ in grey, too.
PARTS = {"schedule_ms": ("scheduling", "#000000", ""), "build_ms": ("inputs", "#999999", "////"),
         "gemm_ms": ("GEMM", "#0072B2", ""), "attention_ms": ("attention", "#D55E00", "...."),
         "communication_ms": ("communication", "#CC79A7", "xxxx"),
         "other_ms": ("other kernels", "#56B4E9", ""),
         "sampling_ms": ("sampling", "#E69F00", "\\\\\\\\"),
         "delivery_ms": ("delivery", "#009E73", "----"),
         "clocks_ms": ("lower clocks", "#D8D0A8", "")}
KINDS = {"prefill": (True, False), "mixed": (True, True), "decode": (False, True)}


def breakdown(run):
    """(kind, number of steps, mean ms by part) of the kinds of step that the run has."""
    steps = run.table("steps.csv", ["step", "prefill_tokens", "decode_tokens"])
    parts = run.table("parts.csv")
    if steps.empty or parts.empty:  # columns without a row have no type to merge on
        return []
    parts = parts.merge(steps, on="step")
    found = []
    for kind, (prefill, decode) in KINDS.items():
        chosen = parts[((parts["prefill_tokens"] > 0) == prefill)
                       & ((parts["decode_tokens"] > 0) == decode)]
        if not chosen.empty:
            found.append((kind, len(chosen), {name: chosen[name].mean() for name in PARTS
                                              if name in chosen}))
    return found


def draw(runs, arguments):
    rows = [(run, *found) for run in runs for found in breakdown(run) or [("no step", 0, {})]]
    if all(count == 0 for _, _, count, _ in rows):
        raise PlotError("no run has a step with tokens")
    shown = [name for name in PARTS if any(means.get(name, 0) > 0 for *_, means in rows)]
    figure, axes = plt.subplots(figsize=(style.width_of(arguments, 2),
                                         0.8 + 0.25 * len(rows)))
    ends = np.zeros(len(rows))
    for name in shown:
        values = np.array([means.get(name, 0) for *_, means in rows])
        axes.barh(range(len(rows)), values, 0.7, left=ends, color=PARTS[name][1],
                  hatch=PARTS[name][2], edgecolor="white", linewidth=0, label=PARTS[name][0])
        ends += values
    for row, ((_, _, count, _), end) in enumerate(zip(rows, ends)):
        steps = f"{count:,} step{'s' * (count != 1)}"
        axes.annotate(f"{end:.3g} ms, {steps}", (end, row), xytext=(3, 0),
                      textcoords="offset points", va="center", fontsize=7, color="#666666")
    axes.set_yticks(range(len(rows)), [f"{run.label}, {kind}" for run, kind, *_ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1.3 * ends.max())
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("mean time per step (ms)")
    style.legend_above(figure, style.labelled([axes]))
    return figure


if __name__ == "__main__":
    style.main(__doc__, "step_breakdown", draw)
