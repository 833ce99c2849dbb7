"""Largest rates of several experiments side by side, a panel for each comparison (twinserve capacity
--format json); whiskers are 95 % intervals over seeds. Bars of the usual advice are hatched."""
import style
from environment import np
from policies import POLICIES, policy_named
from run_data import PlotError, read_json

KINDS = {  # label, policy, whether the advice is followed
    "tgi2_advice": ("TGI 2, advice", "tgi_v2", True),
    "tgi2_all_memory": ("TGI 2, advised prefill", "tgi_v2", True),
    "tgi2_server": ("TGI 2 as it starts", "tgi_v2", False),
    "tgi3_advice": ("TGI 3, advice", "tgi_v3", True),
    "tgi3_server": ("TGI 3 as it starts", "tgi_v3", False),
    "vllm_server": ("vLLM as it starts", "vllm_v1", False),
}
TITLES = {"16gb": "16 GB (weights in fp8)", "l4": "L4 (24 GB)", "a100_40gb": "A100 (40 GB)",
          "h100_sxm": "H100 (80 GB)"}


def read_comparisons(paths, _arguments):
    comparisons = []
    for path in paths:
        document = read_json(path)
        if "capacities" not in document:
            raise PlotError(f"{path}: holds no capacities; twinserve capacity --format json does")
        comparisons.append((TITLES.get(path.parent.name, path.parent.name), document["capacities"]))
    return comparisons


def draw_comparison(axes, capacities):
    labels = []
    for row, one in enumerate(capacities):
        kind = one["experiment"].rsplit("/", 1)[-1].removesuffix(".textproto")
        label, policy, hatched = KINDS.get(kind, (policy_named(kind).label, kind, False))
        labels.append(label)
        value = one["by_seed"]
        if value.get("mean") is None:
            axes.annotate("undefined", (0, row), xytext=(4, 0), va="center",
                          textcoords="offset points", fontsize=style.NOTE_SIZE)
            continue
        error = np.array([[value["mean"] - value["low"]], [value["high"] - value["mean"]]])
        axes.barh(row, value["mean"], xerr=np.maximum(error, 0), height=0.7,
                  color=POLICIES[policy].colour if policy in POLICIES else "#999999",
                  hatch="////" if hatched else None, edgecolor="white", linewidth=0,
                  error_kw={"ecolor": "#000000", "elinewidth": 0.8, "capsize": 2})
        axes.annotate(f"{value['mean']:.3g}", (value["high"], row), xytext=(4, 0), va="center",
                      textcoords="offset points", fontsize=style.NOTE_SIZE)
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlim(0, 1.25 * max(one["by_seed"].get("high") or 0 for one in capacities) or 1)
    axes.set_xlabel("largest rate (requests/s)")


def draw(comparisons, arguments):
    width = style.width_of(arguments, 2)
    columns = 2 if len(comparisons) > 1 and width > 5 else 1
    rows = -(-len(comparisons) // columns)
    figure, grid = style.plt.subplots(rows, columns, squeeze=False, figsize=(width, 1.6 * rows))
    panels = list(grid.flat)
    for axes, (title, capacities) in zip(panels, comparisons):
        axes.set_title(title)
        draw_comparison(axes, capacities)
    for axes in panels[len(comparisons):]:
        axes.remove()
    return figure


if __name__ == "__main__":
    style.main(__doc__, "usual_advice", draw, read_comparisons, "CAPACITY.json")
