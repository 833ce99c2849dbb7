"""The common style of all figures, and functions that read run directories."""
import argparse
import dataclasses
import itertools
import json
import pathlib
import re
import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402 (the backend comes first)
import pandas as pd  # noqa: E402

from policies import policy_named  # noqa: E402

LINES = ["-", "--", ":", "-."]

COLUMN_WIDTH = 3.35  # inches; one column of a two-column paper
TEXT_WIDTH = 7.0

FORMATS = {"png", "pdf", "svg"}


class PlotError(Exception):
    """Bad input; the text is shown to the user as one line."""


@dataclasses.dataclass(frozen=True)
class Run:
    path: pathlib.Path
    policy: str
    summary: dict
    label: str
    colour: str
    line: str

    def number(self, name):
        """A value of summary.json; None if it is undefined or absent."""
        return self.summary.get(name)

    def table(self, file, columns):
        """The given columns of a CSV file of the run, as a data frame."""
        path = self.path / file
        try:
            table = pd.read_csv(path)
        except FileNotFoundError:
            raise PlotError(f"{path}: does not exist; the run needs outputs {{ "
                            f"{file.replace('.', '_')}: true }}") from None
        except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
            raise PlotError(f"{path}: is not a CSV file: {str(error).splitlines()[0]}") from None
        missing = [name for name in columns if name not in table.columns]
        if missing:
            raise PlotError(f"{path}: has no column {', '.join(missing)}")
        return table[columns]


def read_summary(path):
    file = path / "summary.json"
    if not file.is_file():
        raise PlotError(f"{path}: is not a run directory: it has no summary.json")
    try:
        summary = json.loads(file.read_text())
    except ValueError as error:
        raise PlotError(f"{file}: is not JSON: {error}") from None
    if not isinstance(summary, dict):
        raise PlotError(f"{file}: is not a JSON object")
    return summary


def read_policy(path):
    file = path / "config.resolved.textproto"
    if not file.is_file():
        raise PlotError(f"{path}: is not a run directory: it has no config.resolved.textproto")
    found = re.search(r"^policy \{\s*(\w+) \{", file.read_text(), re.MULTILINE)
    if not found:
        raise PlotError(f"{file}: names no policy")
    return found.group(1)


def read_runs(paths):
    """The runs in the order of the paths. Runs of the same policy get different line styles."""
    found = [(path, read_policy(path), read_summary(path)) for path in paths]
    policies = [policy for _, policy, _ in found]
    lines = {policy: itertools.cycle(LINES) for policy in policies}
    runs = []
    for path, policy, summary in found:
        alone = policies.count(policy) == 1
        look = policy_named(policy)
        label = look.label if alone else path.resolve().name
        runs.append(Run(path, policy, summary, label, look.colour, next(lines[policy])))
    return runs


def use_style():
    plt.rcParams.update({
        "font.size": 8,
        "axes.titlesize": 8,
        "axes.labelsize": 8,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
        "legend.fontsize": 7.5,
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.6,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#E4E4E4",
        "grid.linewidth": 0.5,
        "lines.linewidth": 1.3,
        "figure.dpi": 200,
        "figure.constrained_layout.use": True,
        "pdf.fonttype": 42,
        "svg.hashsalt": "twinserve",
    })


def seconds_text(value, _position=None):
    """A time on a logarithmic axis: 20 ms, 3 s, 1000 s."""
    return f"{1000 * value:g} ms" if value < 0.999 else f"{value:g} s"


def count_text(value, _position=None):
    """A number on an axis: 500, 20k, 3M."""
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{sign}"
    return f"{value:g}"


def write_empty_panel(axes, what):
    axes.text(0.5, 0.5, what, transform=axes.transAxes, ha="center", va="center", color="#666666")


def legend_above(figure, handles):
    """Draws one legend above the panels, in rows that fit the figure. handles: artist by label."""
    if not handles:
        return
    # Width of an entry: a line sample with margins, and letters of about half the font size.
    letter = 0.55 * plt.rcParams["legend.fontsize"] / 72
    widest = 0.45 + letter * max(len(label) for label in handles)
    figure.legend(handles.values(), handles.keys(), loc="outside upper center",
                  ncols=min(len(handles), max(1, int(figure.get_figwidth() / widest))))


def labelled(axes_list):
    """The labelled artists of all axes by label, without duplicates."""
    handles = {}
    for axes in axes_list:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    return handles


def parse_formats(text):
    formats = text.split(",")
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"unknown format '{unknown[0]}'; allowed: {', '.join(sorted(FORMATS))}")
    return formats


def main(description, stem, draw, read=read_runs):
    """The command line of a figure: writes draw(read(paths)) to files named `stem`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("runs", nargs="+", metavar="RUN_DIR", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), metavar="DIR")
    parser.add_argument("--format", type=parse_formats, default=["png"], metavar="png,pdf,svg")
    arguments = parser.parse_args()
    try:
        use_style()
        figure = draw(read(arguments.runs))
        arguments.out.mkdir(parents=True, exist_ok=True)
        for name in arguments.format:
            file = arguments.out / f"{stem}.{name}"
            # Without a creation date, equal runs give equal files.
            metadata = {"CreationDate": None} if name == "pdf" else None
            figure.savefig(file, metadata=metadata)
            print(file)
    except (PlotError, OSError) as error:
        sys.exit(f"{stem}: {error}")
