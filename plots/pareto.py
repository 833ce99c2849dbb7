"""Common parts of the Pareto figures: points of two metrics, and the stepped frontier of the best."""
import style
from environment import np, pd, plt
from lines import legend_handles, lines_of, metric_label, note_undefined
from points import LOAD_FIELDS, configurations


def frontier(x, y, x_sign, y_sign):
    """Indices of the points that no other point beats in both, by increasing x. A sign is 1 if more
    is better, -1 if less is."""
    order = np.lexsort((-y_sign * y, -x_sign * x))  # the best x first
    best, kept = -np.inf, []
    for i in order:
        if y_sign * y[i] > best:
            best = y_sign * y[i]
            kept.append(i)
    return sorted(kept, key=lambda i: x[i])


def on_frontier(table, signs):
    """The rows of the table that no other row beats in both, by increasing x. Saturated points do
    not count; undefined ones are in no table."""
    steady = table[~table["hollow"].astype(bool)]
    return steady.iloc[frontier(*(steady[name].to_numpy(float) for name in ("x", "y")), *signs)]


def draw_frontier(axes, best, signs, extended):
    """A stepped line around the region that no point reaches, through the rows of on_frontier.
    extended: up to the ends of the axes."""
    if best.empty or len(best) == 1 and not extended:
        return []
    x, y = (best[name].to_numpy(float) for name in ("x", "y"))
    where = "post" if signs == (-1, -1) else "pre"
    if extended and where == "post":
        x = np.concatenate((x[:1], x, [axes.get_xlim()[1]]))
        y = np.concatenate(([axes.get_ylim()[1]], y, y[-1:]))
    elif extended:
        x = np.concatenate(([axes.get_xlim()[0]], x, x[-1:]))
        y = np.concatenate((y[:1], y, [axes.get_ylim()[0]]))
    return axes.step(x, y, where=where, color="#333333", linewidth=2, alpha=0.4, zorder=1,
                     label="frontier", scalex=False, scaley=False)


def draw_scatter(axes, line, best, joined):
    """The points of one line: those on a frontier, dominated ones faint; saturated ones hollow,
    undecided ones half filled. best: the indices of all points on frontiers."""
    verdicts = line.table["verdict"].to_numpy()
    strong = line.table.index.isin(best)
    common = {"color": line.look.colour, "marker": line.look.marker, "linestyle": "none"}
    if joined:
        axes.plot(line.table["x"], line.table["y"], color=line.look.colour,
                  linestyle=line.look.dash, linewidth=0.9, alpha=style.FAINT, label="_joined")
    for verdict in ("", *style.VERDICTS):
        face = style.face_of(verdict, line.look.colour)
        mine = verdicts == verdict if verdict else ~np.isin(verdicts, list(style.VERDICTS))
        name = style.VERDICTS.get(verdict, "points")
        for chosen, look in (
                (mine & ~strong, {"alpha": style.FAINT,
                                  "label": f"_{name}" if verdict else "_dominated"}),
                (mine & strong, {"label": f"_{name}" if verdict
                                 else style.entry(line.label) or "_points"})):
            axes.plot(line.table["x"][chosen], line.table["y"][chosen], **common, **face, **look)


def write_values(axes, lines, values):
    """A setting's value beside each point, unless another one is there."""
    taken = []
    for line in lines:
        for index, point in line.table.iterrows():
            place = axes.transData.transform((point["x"], point["y"]))
            near = 9 * axes.get_figure().dpi / 72  # the letters' height and their distance
            if any(np.abs(place - other).max() < near for other in taken):
                continue
            taken.append(place)
            value = values[index]
            axes.annotate(f"{value:g}" if isinstance(value, (int, float))
                          else style.one_line(value),
                          (point["x"], point["y"]), xytext=(3, 3), textcoords="offset points",
                          fontsize=style.NOTE_SIZE, color=line.look.colour)


def scale(axes, table):
    """From 0, or logarithmic over more than two decades."""
    for name, set_scale, limit in (("x", axes.set_xscale, axes.set_xlim),
                                   ("y", axes.set_yscale, axes.set_ylim)):
        if style.is_wide(table[name]):
            set_scale("log")
        else:
            limit(0)


def draw_pareto(points, arguments, x, y, signs, by_load):
    """by_load: a frontier for each load, and no lines; else one frontier, and the points of each
    configuration are joined in the order of their loads."""
    arguments.line = configurations(points, arguments.line)
    loads = [name for name in points.settings if name.rsplit(".", 1)[-1] in LOAD_FIELDS]
    figure, axes = plt.subplots(figsize=(style.width_of(arguments, 1), 3.0))
    lines = lines_of(points, x, y, arguments, joined=False)
    axes.set_xlabel(metric_label(x))
    axes.set_ylabel(metric_label(y))
    table = pd.concat([line.table for line in lines])
    parts = [table]
    if by_load and loads:
        keys = points.table.loc[table.index, loads]
        groups = keys.groupby(loads, sort=False, dropna=False)
        parts = [table.loc[group.index] for _, group in groups]
    best = [on_frontier(part, signs) for part in parts]
    for line in lines:
        draw_scatter(axes, line, pd.concat(best).index, joined=not by_load)
    scale(axes, table)
    note_undefined(axes, lines)
    axes.set_title("better \u2199" if signs == (-1, -1) else "better \u2197",
                   loc="left" if signs == (-1, -1) else "right", fontsize=7)
    handles = legend_handles(lines, joined=not by_load)
    for rows in best:
        for artist in draw_frontier(axes, rows, signs, extended=len(parts) == 1):
            handles["frontier" if len(parts) == 1 else "frontier of each load"] = artist
    if arguments.write:
        points.need(arguments.write)
        write_values(axes, lines, points.table[arguments.write])
    style.legend_above(figure, handles)
    verdicts = pd.concat([line.table["verdict"] for line in lines])
    style.remark_verdicts(figure, verdicts, "points")
    return figure
