"""Common parts of the Pareto figures: points of two metrics, and the stepped frontier of the best."""
import style
from environment import np, pd, plt
from lines import legend_handles, lines_of, metric_label, note_undefined, write_log_axis
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


def draw_frontier(axes, table, signs, extended):
    """A stepped line around the region that no point of the table reaches. Saturated points do not
    count. extended: up to the ends of the axes."""
    x, y = (table.loc[~table["hollow"].astype(bool), name].to_numpy(float) for name in ("x", "y"))
    if x.size == 0:
        return []
    kept = frontier(x, y, *signs)
    x, y = x[kept], y[kept]
    if len(kept) == 1 and not extended:
        return []
    where = "post" if signs == (-1, -1) else "pre"
    if extended and where == "post":
        x = np.concatenate((x[:1], x, [axes.get_xlim()[1]]))
        y = np.concatenate(([axes.get_ylim()[1]], y, y[-1:]))
    elif extended:
        x = np.concatenate(([axes.get_xlim()[0]], x, x[-1:]))
        y = np.concatenate((y[:1], y, [axes.get_ylim()[0]]))
    return axes.step(x, y, where=where, color="#333333", linewidth=2.6, alpha=0.22, zorder=1,
                     label="frontier", scalex=False, scaley=False)


def draw_scatter(axes, line, joined):
    hollow = line.table["hollow"].to_numpy(bool)
    common = {"color": line.look.colour, "marker": line.look.marker, "linestyle": "none"}
    if joined:
        axes.plot(line.table["x"], line.table["y"], color=line.look.colour,
                  linestyle=line.look.dash, linewidth=0.9, label="_joined")
    axes.plot(line.table["x"][~hollow], line.table["y"][~hollow], **common,
              label=style.entry(line.label) if line.label else "_points")
    if hollow.any():
        axes.plot(line.table["x"][hollow], line.table["y"][hollow], **common,
                  markerfacecolor="white", markeredgewidth=0.9, label="_saturated")


def write_values(axes, lines, values):
    """A setting's value beside each point."""
    for line in lines:
        for index, point in line.table.iterrows():
            value = values[index]
            axes.annotate(f"{value:g}" if isinstance(value, (int, float))
                          else style.one_line(value),
                          (point["x"], point["y"]), xytext=(3, 3), textcoords="offset points",
                          fontsize=6, color=line.look.colour)


def scale(axes, table):
    """From 0, or logarithmic over more than two decades."""
    for name, axis, set_scale, limit in (("x", axes.xaxis, axes.set_xscale, axes.set_xlim),
                                         ("y", axes.yaxis, axes.set_yscale, axes.set_ylim)):
        if table[name].min() > 0 and table[name].max() > 100 * table[name].min():
            set_scale("log")
            write_log_axis(axis, axis.get_label_text(), axis.set_label_text)
        else:
            limit(0)


def draw_pareto(points, arguments, x, y, signs, by_load):
    """by_load: a frontier for each load, and no lines; else one frontier, and the points of each
    configuration are joined in the order of their loads."""
    arguments.line = configurations(points, arguments.line)
    loads = [name for name in points.settings if name.rsplit(".", 1)[-1] in LOAD_FIELDS]
    figure, axes = plt.subplots(figsize=(arguments.width or style.COLUMN_WIDTH, 3.0))
    lines = lines_of(points, x, y, arguments, joined=False)
    axes.set_xlabel(metric_label(x))
    axes.set_ylabel(metric_label(y))
    for line in lines:
        draw_scatter(axes, line, joined=not by_load)
    table = pd.concat([line.table for line in lines])
    scale(axes, table)
    note_undefined(axes, lines)
    parts = [table]
    if by_load and loads:
        keys = points.table.loc[table.index, loads]
        parts = [table.loc[group.index] for _, group in keys.groupby(loads, sort=False)]
    handles = legend_handles(lines, joined=not by_load)
    for part in parts:
        for artist in draw_frontier(axes, part, signs, extended=len(parts) == 1):
            handles["frontier" if len(parts) == 1 else "frontier of each load"] = artist
    if arguments.write:
        points.need(arguments.write)
        write_values(axes, lines, points.table[arguments.write])
    style.legend_above(figure, handles)
    return figure
