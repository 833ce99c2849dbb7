"""Lines through points: one per setting, with the spread of the seeds as a band or as whiskers, and
saturated points hollow."""
import dataclasses
import pathlib
import re

from environment import matplotlib, np, pd, plt
from points import INTERVAL_RUNS_MIN, RUN_NAME, RUN_POLICY, line_columns
from policies import POLICIES, own_policy_name, policy_named
from run_data import PlotError, line_labels
from style import (COLOURS, DASHES, HATCHES, MARKERS, TICKS_MAX, VERDICTS, Look, bar_face, entry,
                   face_of, is_wide, looks_for, note, one_line, relabel, remark, remark_verdicts,
                   size_text, verdict_artists, write_empty_panel)

COLUMNS = ("x", "y", "low", "high", "least", "largest", "runs", "verdict", "hollow")
BAND = 0.18  # opacity
HEADS = ("study", "base", "policy")  # settings whose value is a name: all others belong to one
FROM_ZERO = ("_share", "_rate", "_throughput", "_goodput", "_attainment")  # ends of metrics
LATENCIES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "end-to-end",
             "queue": "queueing", "longest_itl": "longest ITL", "engine_ttft": "engine TTFT",
             "engine_e2el": "engine end-to-end"}
NAMES = {
    "offered_rate": "offered load (requests/s)",
    "request_throughput": "client's throughput (requests/s)",
    "output_throughput": "client's output tokens/s",
    "total_token_throughput": "client's tokens/s, prompts included",
    "request_goodput": "client's goodput (requests/s)",
    "completed_rate": "throughput (requests/s)",
    "output_token_rate": "output tokens/s",
    "total_token_rate": "tokens/s, prompts included",
    "good_rate": "goodput (requests/s)",
    "slo_attainment": "SLO attainment (% of requests)",
    "prefix_hit_share": "prefix-cache hit rate (% of prompt tokens)",
    "mean_kv_used_share": "mean KV cache use (%)",
    "max_kv_used_share": "largest KV cache use (%)",
    "busy_share": "device busy (%)",
    "max_service_difference": "largest service difference (tokens)",
    "mean_normalized_ms_per_token": "mean normalized latency (ms/token)",
    "workload.shape.prompt.value": "prompt tokens",
    "workload.shape.output.value": "output tokens",
}


@dataclasses.dataclass
class Line:
    label: str
    look: Look
    table: object  # the points by increasing x, with COLUMNS
    undefined: int = 0  # points without a value


def metric_label(name):
    """p99_ttft_ms: p99 TTFT (ms). Paths of fields keep their last name."""
    found = re.fullmatch(r"(mean|median|p\d+|std|min|max)_(\w+)_ms", name)
    if found and found[2] in LATENCIES:
        return f"{found[1]} {LATENCIES[found[2]]} (ms)"
    if name in NAMES:
        return NAMES[name]
    if "." in name:
        last = name.rsplit(".", 1)[-1]
        return "rate (requests/s)" if last == "rate" else one_line(last)
    return one_line(name.replace("_", " "))


def factor_of(name):
    """Shares are drawn in percent."""
    return 100 if name.endswith("_share") or name == "slo_attainment" else 1


def policy_of(column, value):
    """The policy that a setting names; None if it names none."""
    if column == "policy":
        return own_policy_name(str(value)) or str(value).split(" ")[0].rstrip("{} ")
    stem = pathlib.Path(str(value)).stem
    return stem if column == "base" and stem in POLICIES else None


def value_text(column, value):
    """A setting as the legend writes it."""
    if column == "policy.own.path":
        return pathlib.Path(str(value)).stem.removeprefix("lib")
    if column == "policy":
        return policy_named(policy_of("policy", value)).label
    if column == "base":
        stem = pathlib.Path(str(value)).stem
        return policy_named(stem).label if stem in POLICIES else stem
    text = f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)
    return text if column == "study" else f"{column.rsplit('.', 1)[-1]} = {text}"


def is_absent(value):
    """Whether a line has no value of a setting, such as one of another line's policy."""
    return value == "" or pd.isna(value)


def setting_texts(columns, keys):
    """The text of each value by column. Where short texts of values are equal, such as those of two
    messages of one policy, the whole values stand in their place."""
    texts = []
    for at, column in enumerate(columns):
        short = {key[at]: value_text(column, key[at]) for key in keys if not is_absent(key[at])}
        same = [text for text in short.values() if list(short.values()).count(text) > 1]
        texts.append({value: f"{column.rsplit('.', 1)[-1]} = {value!s}" if text in same else text
                      for value, text in short.items()})
    return texts


def group_texts(columns, keys):
    """A text for each group: its study, base and policy, and the values of the settings in which
    groups of these differ."""
    texts = setting_texts(columns, keys)
    heads = [at for at, column in enumerate(columns) if column in HEADS]
    found = []
    for key in keys:
        peers = [other for other in keys if all(str(other[at]) == str(key[at]) for at in heads)]
        held = [at for at, value in enumerate(key) if not is_absent(value)]
        shown = [at for at in held if at in heads or len({str(other[at]) for other in peers}) > 1]
        found.append(one_line(", ".join(texts[at][key[at]] for at in shown or held)))
    return found


def unique_value(group, column):
    """The value that all points of a line have in a column; None if there is none."""
    found = list(group[column].unique()) if column in group else []
    return found[0] if len(found) == 1 and not is_absent(found[0]) else None


def group_policies(columns, groups):
    """The policy of each line; None where the table does not tell it."""
    found = []
    for key, group in groups:
        named = [policy_of(column, value) for column, value in zip(columns, key)]
        found.append(next(filter(None, [unique_value(group, RUN_POLICY), *named]), None))
    return found


def group_looks(keys, columns, policies, colour):
    """Looks of the groups. With `colour`, the values of that setting have colours, and the other
    settings have markers and dashes."""
    if colour is None or columns == [colour]:
        return looks_for(policies)
    if colour not in columns:
        raise PlotError(f"--colour {colour}: allowed: {', '.join(columns) or 'no column'}")
    at = columns.index(colour)
    colours = list(dict.fromkeys(key[at] for key in keys))
    rest = list(dict.fromkeys(key[:at] + key[at + 1:] for key in keys))
    if len(colours) > len(COLOURS) or len(rest) > min(len(DASHES), len(MARKERS)):
        raise PlotError(f"--colour {colour}: {len(colours)} colours and {len(rest)} kinds of line; "
                        f"allowed: at most {len(COLOURS)} and {len(DASHES)}")
    return [Look(COLOURS[colours.index(key[at])],
                 *(kind[rest.index(key[:at] + key[at + 1:])] for kind in (MARKERS, DASHES)))
            for key in keys]


def column_of(points, name, end=""):
    table = points.table
    if name + end not in table.columns:
        return np.full(len(table), np.nan)
    return table[name + end].to_numpy(float)


def lines_of(points, x, y, arguments, joined=True, places=None):
    """The lines of metric `y` against `x`. joined: a line has at most one point per value of x.
    places: where each value of x is, if not at its number."""
    columns = line_columns(points, x, arguments.line)
    points.need(x, y)
    table = points.table.copy()
    if places is None:
        points.numbers(x)
        table["x_"] = column_of(points, x) * factor_of(x)
    else:
        table["x_"] = points.table[x].map(places)
    factor = factor_of(y)
    for name in COLUMNS[1:6]:
        end = "" if name == "y" else f"_{name}"
        table[f"{name}_"] = column_of(points, y, end) * factor
    runs = column_of(points, y, "_n")
    table["runs_"] = np.where(np.isnan(runs), column_of(points, "n"), runs)
    table["verdict_"] = table["saturated"] if "saturated" in table else ""
    table["hollow_"] = table["verdict_"] == "yes"
    groups = list(table.groupby(columns, sort=False, dropna=False)) if columns else [((), table)]
    keys = [key for key, _ in groups]
    policies = group_policies(columns, groups)
    looks = group_looks(keys, columns, policies, getattr(arguments, "colour", None))
    names = line_labels(policies, [unique_value(group, RUN_NAME) for _, group in groups],
                        group_texts(columns, keys)) if columns else [""]
    labels = relabel(names, arguments.labels)
    lines = []
    for (_, group), label, look in zip(groups, labels, looks):
        count = len(group)
        group = group.dropna(subset=["x_", "y_"]).sort_values("x_")
        if joined and group["x_"].duplicated().any():
            raise PlotError(f"{points.source}: several points have the same {x} on the line "
                            f"'{label}'; tell them apart with --line or choose with --where")
        names = {f"{name}_": name for name in COLUMNS}
        lines.append(Line(label, look, group[list(names)].rename(columns=names),
                          count - len(group)))
    return lines


def interval_of(line, logarithmic):
    """The ends of each point's interval; NaN where it has none, or too few runs. On a logarithmic
    axis it is one of the mean's logarithm: its upper end is that of the study, and its lower end is
    as many times below the mean, because the study's may be close to 0."""
    table = line.table
    y = table["y"].to_numpy(float)
    enough = (table["runs"] >= INTERVAL_RUNS_MIN).to_numpy()
    low, high = (np.where(enough, table[name].to_numpy(float), np.nan) for name in ("low", "high"))
    return (y * y / high, high) if logarithmic else (low, high)


def range_of(line):
    """The least and the largest value of each point with several runs and no interval, else NaN."""
    several = (line.table["runs"] > 1) & np.isnan(interval_of(line, False)[0])
    return tuple(line.table[name].where(several).to_numpy(float) for name in ("least", "largest"))


def draw_whiskers(axes, x, y, ends, colour):
    """Whiskers from the lower to the upper ends, where there are any."""
    low, high = ends
    drawn = ~np.isnan(low)
    if drawn.any():
        error = np.maximum(np.vstack([y - low, high - y]), 0)[:, drawn]
        axes.errorbar(x[drawn], y[drawn], yerr=error, fmt="none", ecolor=colour, elinewidth=0.7,
                      capsize=1.5, capthick=0.7)


def draw_spread(axes, line, logarithmic):
    """The intervals as a band, which ends at points without one, and ranges as whiskers."""
    x, y = line.table["x"].to_numpy(float), line.table["y"].to_numpy(float)
    low, high = interval_of(line, logarithmic)
    banded = ~np.isnan(low)
    if banded.any():
        axes.fill_between(x, low, high, where=banded, color=line.look.colour, alpha=BAND,
                          linewidth=0)
    alone = banded & ~np.append(banded[1:], False) & ~np.insert(banded[:-1], 0, False)
    axes.vlines(x[alone], low[alone], high[alone], color=line.look.colour, alpha=BAND, linewidth=4)
    draw_whiskers(axes, x, y, range_of(line), line.look.colour)


def draw_line(axes, line, logarithmic=False):
    """Draws the spread of the runs, the steady part, and the saturated part: thin, with hollow
    markers."""
    draw_spread(axes, line, logarithmic)
    table, look = line.table, line.look
    x, y = table["x"].to_numpy(), table["y"].to_numpy()
    hollow = table["hollow"].to_numpy(bool)
    steady = np.where(hollow, np.nan, y)
    # The saturated part begins at the last steady point before it.
    near = hollow | np.append(hollow[1:], False) | np.insert(hollow[:-1], 0, False)
    axes.plot(x, np.where(near, y, np.nan), color=look.colour, linestyle=look.dash, linewidth=0.6,
              alpha=0.7)
    axes.plot(x, steady, color=look.colour, linestyle=look.dash, marker=look.marker,
              clip_on=False,  # half of a marker at 0 lies below the axis
              label=entry(line.label) if line.label else "_nolegend_")
    draw_verdicts(axes, line, x)


def draw_verdicts(axes, line, x):
    """Hollow and half-filled markers at `x` over those of saturated and undecided points."""
    for verdict in VERDICTS:
        chosen = (line.table["verdict"] == verdict).to_numpy()
        if chosen.any():
            axes.plot(x[chosen], line.table["y"][chosen], color=line.look.colour, linestyle="none",
                      marker=line.look.marker, label="_nolegend_", clip_on=False,
                      **face_of(verdict, line.look.colour))


def note_undefined(axes, lines):
    """Names the lines that lack points because the metric is undefined there."""
    if all(line.table.empty for line in lines):
        write_empty_panel(axes, "undefined")
        return
    note(axes, [(f"{line.label or 'all points'}: " + (
        "undefined" if line.table.empty
        else f"{line.undefined} of {line.undefined + len(line.table)} points undefined"),
        line.look.colour) for line in lines if line.undefined])


def draw_panels(panels, points, x, metrics, arguments):
    """A panel for each metric with all lines against `x`, axes and labels included; the lines of
    all panels. Latencies share a kind of scale."""
    by_panel = [lines_of(points, x, metric, arguments) for metric in metrics]
    for axes, metric, lines, logarithmic in zip(panels, metrics, by_panel,
                                                log_scales(metrics, by_panel)):
        for line in lines:
            draw_line(axes, line, logarithmic)
        scale_x(axes, lines)
        axes.set_xlabel(metric_label(x))
        axes.set_ylabel(metric_label(metric))
        note_undefined(axes, lines)
        scale_y(axes, logarithmic)
    every = [line for lines in by_panel for line in lines]
    remark_points(panels[0].get_figure(), every)
    return every


def log_scales(metrics, by_panel):
    """Whether each panel has a logarithmic axis: latencies, which are compared, all alike; rates
    and shares, which begin at 0, and panels with a value of 0 never."""
    latencies = [metric.endswith("_ms") for metric in metrics]
    wide = [is_wide(values_of(lines, "y")) and not metric.endswith(FROM_ZERO)
            for metric, lines in zip(metrics, by_panel)]
    wanted = [any(w for w, other in zip(wide, latencies) if other) if latency else own
              for own, latency in zip(wide, latencies)]
    return [one and (values := values_of(lines, "y")).size > 0 and values.min() > 0
            for one, lines in zip(wanted, by_panel)]


def draw_bar_panels(panels, points, x, metrics, arguments):
    """As draw_panels, with a group of bars for each value of `x`; the artists by label."""
    points.need(x)
    values = list(dict.fromkeys(points.table[x]))
    if all(isinstance(value, (int, float, np.number)) for value in values):
        values = sorted(values)
    places = {value: place for place, value in enumerate(values)}
    by_panel = [lines_of(points, x, metric, arguments, places=places) for metric in metrics]
    texts = [value_text("study", value) if x not in ("policy", "base") else value_text(x, value)
             for value in values]
    for axes, metric, lines, logarithmic in zip(panels, metrics, by_panel,
                                                log_scales(metrics, by_panel)):
        for number, line in enumerate(lines):
            draw_bars(axes, line, number, len(lines), logarithmic)
        axes.set_xticks(range(len(values)), [one_line(text) for text in texts])
        axes.set_xlim(-0.5, len(values) - 0.5)
        axes.grid(axis="x", visible=False)
        axes.set_xlabel(metric_label(x))
        axes.set_ylabel(metric_label(metric))
        note_undefined(axes, lines)
        scale_y(axes, logarithmic)
    every = [line for lines in by_panel for line in lines]
    remark_points(panels[0].get_figure(), every,
                  bars=not all(axes.get_yscale() == "log" for axes in panels))
    if all(axes.get_yscale() == "log" for axes in panels):
        return legend_handles(every, joined=False)
    bars = {line.label: matplotlib.patches.Patch(
                facecolor=line.look.colour, hatch=HATCHES[number % len(HATCHES)],
                edgecolor="white", linewidth=0)
            for number, line in enumerate(by_panel[0]) if line.label}
    return bars | verdict_handles(every, bars=True)


def draw_bars(axes, line, number, count, logarithmic):
    """The bars of one line, `number` of `count` in each group, with their intervals. A bar on a
    logarithmic axis would begin nowhere: there, points stand in its place."""
    table, width = line.table, 0.8 / count
    x = (table["x"] + width * (number - (count - 1) / 2)).to_numpy(float)
    y, verdicts = table["y"].to_numpy(float), table["verdict"]
    colour = line.look.colour
    for ends in (interval_of(line, logarithmic), range_of(line)):
        draw_whiskers(axes, x, y, ends, colour if logarithmic else "#222222")
    if logarithmic:
        plain = ~verdicts.isin(list(VERDICTS)).to_numpy()
        axes.plot(x[plain], y[plain], linestyle="none", marker=line.look.marker, color=colour,
                  label="_nolegend_")
        draw_verdicts(axes, line, x)
        return
    axes.bar(x, y, width, color=[bar_face(one, colour) for one in verdicts],
             edgecolor=[colour if one in VERDICTS else "white" for one in verdicts], linewidth=0.6,
             hatch=HATCHES[number % len(HATCHES)], label=entry(line.label) or "_nolegend_")


def legend_handles(lines, joined=True):
    """Artists by label, and the meaning of hollow points if there are any."""
    handles = {line.label: plt.Line2D([], [], color=line.look.colour, marker=line.look.marker,
                                      linestyle=line.look.dash if joined else "none")
               for line in lines if line.label}
    return handles | verdict_handles(lines)


def verdict_handles(lines, bars=False):
    """The meaning of hollow and half-filled points and bars, if there are any."""
    return verdict_artists([verdict for line in lines for verdict in line.table["verdict"]], bars)


def remark_points(figure, lines, bars=False):
    """Says in the caption what bands and whiskers are, and how many points are saturated."""
    verdicts = pd.concat([line.table["verdict"] for line in lines])
    remark_verdicts(figure, verdicts[~verdicts.index.duplicated()], "points", bars)
    runs = np.concatenate([line.table["runs"].to_numpy(float) for line in lines])
    has_interval, has_range = (
        ~np.isnan(np.concatenate([ends(line) for line in lines]))
        for ends in (lambda line: interval_of(line, False)[0], lambda line: range_of(line)[0]))
    few = runs < INTERVAL_RUNS_MIN
    texts = []
    if has_interval.any():
        texts.append(f"{'Whiskers' if bars else 'Bands'}: 95 % intervals of the mean over seeds")
    if has_range.any():
        where = (f"fewer than {INTERVAL_RUNS_MIN} seeds" if few[has_range].all()
                 else "too few seeds for an interval")
        texts.append(f"Whiskers: from the least to the largest value at points with {where}")
    elif (few & (runs > 1)).any():
        texts.append("No whiskers: few seeds, and no results.csv with the value of each")
    for text in [", or ".join(texts).replace(", or Whiskers:", ", or")] if bars else texts:
        if text:
            remark(figure, f"{text}.")


def values_of(lines, name):
    return np.concatenate([line.table[name].to_numpy(float) for line in lines])


def scale_y(axes, logarithmic):
    """A logarithmic axis, or one from 0."""
    if logarithmic:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)


def scale_x(axes, lines):
    """From 0, or logarithmic if the values grow by factors (512, 1024, 2048, ...) or are over more
    than two decades."""
    values = np.unique(values_of(lines, "x"))
    if values.size == 0:
        return
    ratios = values[1:] / values[:-1] if (values > 0).all() and len(values) > 3 else np.ones(1)
    if ratios.min() > 1.3 and ratios.max() / ratios.min() < 1.6:
        axes.set_xscale("log", base=2 if (np.log2(values) % 1 == 0).all() else 10)
        step = -(-len(values) // (TICKS_MAX if axes.get_figure().get_figwidth() > 3 else 4))
        axes.set_xticks(values[::step], [size_text(value) for value in values[::step]])
        axes.minorticks_off()
    elif is_wide(values):
        axes.set_xscale("log")
    elif values.min() >= 0:
        axes.set_xlim(0, 1.06 * values.max() or None)
