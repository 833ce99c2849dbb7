"""Points of a figure: the metrics of the runs at one setting, from studies or run directories.

A table of points has one row per setting: the settings, `n` runs, `saturated` (yes, no, undecided;
empty where it is not known), and for each metric KEY its mean over the runs with the ends of the
95 % interval, KEY_low and KEY_high, and the least and the largest value, KEY_least and KEY_largest.
summary.csv of a study is such a table but for the last two, which come from results.csv beside it.
Rows of results.csv, and runs that differ only in their seeds, are summarised in the same way by the
package twinserve; without it they have no intervals, and a line says so. Points of run directories
have the columns RUN_POLICY and RUN_NAME, too: the policy and the experiment's name, if all runs of
the point have the same one."""
import dataclasses
import functools
import math
import pathlib
import sys

from environment import np, pd, twinserve
from run_data import (MEASURED, PlotError, config_fields, config_text, read_name, read_policy,
                      read_summary, read_table, shortest_names)

INTERVAL_RUNS_MIN = 5  # of a point: of fewer, figures show the least and the largest value
RUN_POLICY, RUN_NAME = "run policy", "run name"  # blanks: no setting has such a path
LOAD_FIELDS = {"rate", "rate_scale", "users", "max_in_flight"}  # last names of their paths
# Of a resolved configuration: what no figure compares.
IGNORED_FIELDS = ("seed", "name", "outputs.", "metrics.", "slo.", "system.model_shape.",
                  "system.hardware_spec.")
# Fields that others of the configuration fill in where nobody sets them, from first to last: what
# tells runs apart is named by the field that somebody set.
FILLED_IN = ("policy.", "system.boundary.", "system.memory.", "cost.")


@dataclasses.dataclass
class Points:
    table: object  # a data frame
    settings: list  # columns that tell the points apart
    source: str  # for messages

    def need(self, *names):
        for name in names:
            if name not in self.table.columns:
                close = [c for c in self.table.columns if name.rsplit(".", 1)[-1].split("_")[-1]
                         in c and not c.endswith(("_low", "_high", "_least", "_largest"))]
                hint = f"; it has {', '.join(close[:5])}" if close else ""
                raise PlotError(f"{self.source}: has no column {name}{hint}")

    def numbers(self, name):
        self.need(name)
        found = pd.to_numeric(self.table[name], errors="coerce")
        if found.isna().all():
            raise PlotError(f"{self.source}: {name} has no numbers")
        return found


def ends(name, runs):
    """The ends of the interval of a metric's mean; NaN if there is none."""
    if runs[name].count() < 2:
        return math.nan, math.nan
    if twinserve is None and runs[name].count() < INTERVAL_RUNS_MIN:
        return math.nan, math.nan
    if twinserve is None:
        say_once("intervals over runs need the Python package twinserve (docs/python.md); points are "
                 "drawn without")
        return math.nan, math.nan
    found = twinserve.metric_interval(name, {other: runs[other] for other in runs})
    return found["mean_low"], found["mean_high"]


@functools.cache
def say_once(text):
    print(f"{pathlib.Path(sys.argv[0]).stem}: {text}", file=sys.stderr)


def verdict_of(runs):
    """The verdict of all runs, or else undecided; empty if no run has one."""
    found = set(runs["saturated"].dropna()) if "saturated" in runs else set()
    return "undecided" if len(found) > 1 else next(iter(found), "")


def summarised(rows, settings):
    """The table of points of rows, one per run."""
    if "error" in rows:
        rows = rows[rows["error"].isna()]
    undefined = [name for name in rows if rows[name].isna().all()]  # null in every run
    rows = rows.astype(dict.fromkeys(undefined, float))
    metrics = [name for name in rows.select_dtypes("number").columns
               if name not in {*settings, "point", "replication", "seed"}]
    points = []
    groups = rows.groupby(settings, sort=False, dropna=False) if settings else [((), rows)]
    for values, group in groups:
        point = dict(zip(settings, values))
        point.update(n=len(group), saturated=verdict_of(group))
        for name in (RUN_POLICY, RUN_NAME):
            if name in group:
                found = group[name].unique()
                point[name] = found[0] if len(found) == 1 else None
        for name in metrics:
            point[name] = group[name].mean()
            point[f"{name}_low"], point[f"{name}_high"] = ends(name, group[metrics])
            point[f"{name}_least"], point[f"{name}_largest"] = group[name].min(), group[name].max()
            point[f"{name}_n"] = group[name].count()
        points.append(point)
    return pd.DataFrame(points)


def with_ranges(table, file):
    """The table of summary.csv with the least and the largest value of each metric, from the
    results of its runs in `file`."""
    rows = read_table(file)
    if "point" not in rows:
        raise PlotError(f"{file}: has no column point")
    if "error" in rows:
        rows = rows[rows["error"].isna()]
    metrics = [name for name in rows.select_dtypes("number") if f"{name}_low" in table]
    groups = rows.groupby("point")[metrics]
    for found, end in ((groups.min(), "least"), (groups.max(), "largest")):
        table = table.join(found.add_suffix(f"_{end}"), on="point")
    return table


def read_study(path):
    """A table of points from a study's folder, its summary.csv, or its results.csv."""
    file = path
    if path.is_dir():
        file = path / "summary.csv"
        file = file if file.is_file() else path / "results.csv"
    table = read_table(file)
    columns = list(table.columns)
    last = "n" if "n" in columns else "replication"
    if "point" not in columns or last not in columns:
        raise PlotError(f"{file}: is neither results.csv nor summary.csv of a study: it has no "
                        f"columns point and {last}")
    settings = columns[columns.index("point") + 1:columns.index(last)]
    if last == "replication":
        table = summarised(table, settings)
    elif (file.parent / "results.csv").is_file():
        table = with_ranges(table, file.parent / "results.csv")
    return Points(table[table["n"] > 0].reset_index(drop=True).copy(), settings, str(file))


def is_compared(field, values, policies):
    """Whether runs differ in a field; policies are compared with runs of the same policy only."""
    if field.startswith(IGNORED_FIELDS) or field.startswith("provenance"):
        return False
    if field.startswith("policy."):
        name = field.split(".")[1]
        values = [value for value, policy in zip(values, policies) if policy == name]
    return len(set(values)) > 1


def filled_in_by(field):
    """The rank of a field: others of lower rank may fill it in."""
    return next((rank for rank, start in enumerate(FILLED_IN, 1) if field.startswith(start)), 0)


def telling(policies, configs):
    """The fields that tell runs apart. One that follows from those before it, such as the memory
    rule of each policy, is left out."""
    kept, known = [], list(zip(policies))
    names = dict.fromkeys(name for config in configs for name in config)
    for name in sorted(names, key=filled_in_by):  # else in the order of the schema
        values = [config.get(name) for config in configs]
        extended = [key + (value,) for key, value in zip(known, values)]
        if is_compared(name, values, policies) and len(set(extended)) > len(set(known)):
            kept.append(name)
            known = extended
    return kept


def read_run_directories(paths):
    """The runs as points: settings are `policy` and the fields in which configurations differ."""
    policies = [read_policy(path) for path in paths]
    configs = [config_fields(config_text(path)) for path in paths]
    differing = telling(policies, configs)
    settings = (["policy"] if len(set(policies)) > 1 or not differing else []) + differing
    rows = []
    for path, policy, config in zip(paths, policies, configs):
        absent = math.nan if policy == MEASURED else ""
        rows.append({**{name: config.get(name, absent) for name in differing}, "policy": policy,
                     RUN_POLICY: policy, RUN_NAME: read_name(path), **read_summary(path)})
    table = pd.DataFrame(rows)
    for name in differing:
        numbers = pd.to_numeric(table[name], errors="coerce")
        table[name] = table[name] if numbers.isna().sum() > table[name].isna().sum() else numbers
    return Points(summarised(table, settings), settings, "the runs")


def read_points(paths, arguments):
    """Points of one or several studies, or of run directories; filtered by --where."""
    paths = [pathlib.Path(path) for path in paths]
    if all((path / "summary.json").is_file() for path in paths):
        points = read_run_directories(paths)
    else:
        for path in paths:
            if path.is_dir() and not any((path / name).is_file()
                                         for name in ("summary.csv", "results.csv")):
                raise PlotError(f"{path}: is neither a study (summary.csv, results.csv) nor a run "
                                "directory (summary.json)")
        points = merged([read_study(path) for path in paths], paths)
    for condition in arguments.where or []:
        name, _, value = condition.partition("=")
        points.need(name)
        kept = points.table[name].map(lambda cell, value=value: same_value(cell, value))
        points.table = points.table[kept].reset_index(drop=True)
    if points.table.empty:
        raise PlotError(f"{points.source}: has no point to draw")
    return points


def merged(studies, paths):
    if len(studies) == 1:
        return studies[0]
    names = shortest_names([path if path.is_dir() else path.parent for path in paths])
    for study, name in zip(studies, names):
        study.table.insert(0, "study", name)
    settings = dict.fromkeys(["study", *(name for study in studies for name in study.settings)])
    return Points(pd.concat([study.table for study in studies], ignore_index=True),
                  list(settings), "the studies")


def same_value(cell, text):
    try:
        return math.isclose(float(cell), float(text), rel_tol=1e-9)
    except ValueError:
        return str(cell) == text


def load_column(points, asked):
    """What to draw to the right as the load: --x, else the rate that the study varies, else the
    measured rate of arrivals."""
    if asked:
        points.need(asked)
        return asked
    rates = [name for name in points.settings if name.rsplit(".", 1)[-1] == "rate"]
    if len(rates) == 1 and not np.isnan(points.numbers(rates[0])).any():
        return rates[0]
    points.need("offered_rate")
    return "offered_rate"


def line_columns(points, x, asked):
    """The settings that tell lines apart: --line, else all but those on the x axis."""
    if asked is not None:
        points.need(*asked)
        return asked
    loads = {name for name in points.settings if name.rsplit(".", 1)[-1] in LOAD_FIELDS}
    left_out = {x} | (loads if x in loads | {"offered_rate", "completed_rate"} else set())
    return [name for name in points.settings if name not in left_out]


def configurations(points, asked):
    """The settings that tell configurations apart: --line, else all that set no load."""
    if asked:
        points.need(*asked)
        return asked
    return [name for name in points.settings if name.rsplit(".", 1)[-1] not in LOAD_FIELDS]


def load_options(parser):
    selection_options(parser)
    parser.add_argument("--x", metavar="COLUMN",
                        help="what is to the right (default: the rate that the study varies, else "
                             "the measured offered_rate)")


def selection_options(parser):
    parser.add_argument("--line", metavar="COLUMN,...", type=lambda text: text.split(","),
                        help="settings that tell lines apart (default: all but that on the x axis)")
    parser.add_argument("--where", metavar="COLUMN=VALUE", action="append",
                        help="draw only points with this value; may be repeated")
