"""The common style of all figures, and the command line of the scripts that draw them."""
import argparse
import csv
import dataclasses
import pathlib
import sys
import typing

from environment import matplotlib, plt
from policies import POLICIES, policy_named
from run_data import PlotError, read_runs

COLUMN_WIDTH = 3.35  # inches; one column of a two-column paper
TEXT_WIDTH = 7.0
LEGEND_ROW = 0.155  # inches
SHOWN = "\u200b"  # before labels that the library would hide because they begin with "_"
WIDTHS = {"1": COLUMN_WIDTH, "2": TEXT_WIDTH}

FORMATS = ("pdf", "png", "svg")

# Okabe and Ito's palette without yellow, and a grey. The three lists have lengths without a common
# divisor, so that series get equal looks in none of the three combined before 280.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#000000"]
MARKERS = ["o", "s", "D", "^", "v", "P", "X", "<", ">"]
DASHES = ["-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (7, 2, 2, 2))]
LINES_MAX = len(COLOURS) * len(DASHES)  # beyond, lines without markers would repeat


class Look(typing.NamedTuple):
    colour: str
    marker: str
    dash: object


def looks_for(names):
    """A look for each name, no two alike. Policies keep their colour and marker."""
    if len(names) > LINES_MAX:
        raise PlotError(f"{len(names)} lines would look alike; allowed: at most {LINES_MAX}")
    if len(set(names)) == len(names) and all(name in POLICIES for name in names):
        return [Look(policy_named(name).colour, policy_named(name).marker, DASHES[i % len(DASHES)])
                for i, name in enumerate(names)]
    return [Look(COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)])
            for i in range(len(names))]


def use_style():
    matplotlib.scale.register_scale(PlainLogScale)
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
        "lines.markersize": 4,
        "figure.dpi": 200,
        "figure.constrained_layout.use": True,
        "pdf.fonttype": 42,
        "text.parse_math": False,  # names hold dollars
        "svg.hashsalt": "twinserve",
    })


class PlainLogScale(matplotlib.scale.LogScale):
    """The scale "log" with labels that are text: those of the library are formulas."""

    def set_default_locators_and_formatters(self, axis):
        super().set_default_locators_and_formatters(axis)
        axis.set_major_formatter(count_text)
        axis.set_minor_formatter("")


def seconds_text(value, _position=None):
    """A time on a logarithmic axis: 20 ms, 3 s, 1000 s."""
    return f"{1000 * value:g} ms" if value < 0.999 else f"{value:g} s"


def count_text(value, _position=None):
    """A number on an axis: 500, 20k, 3M."""
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{sign}"
    return f"{value:g}"


def one_line(text):
    """A name as the figure writes it: line breaks and other control characters are blanks."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text))


def entry(label):
    """The label of an artist that is to appear in the legend, whatever its first letter."""
    return SHOWN + label if label.startswith("_") else label


def note(axes, texts):
    """Lines of small text in the lower right corner: what a panel cannot draw."""
    for row, (text, colour) in enumerate(texts):
        axes.text(0.97, 0.04 + 0.09 * row, text, transform=axes.transAxes, ha="right",
                  color=colour, fontsize=7)


def write_empty_panel(axes, what):
    axes.text(0.5, 0.5, what, transform=axes.transAxes, ha="center", va="center", color="#666666")


def legend_above(figure, handles):
    """Draws one legend above the panels, in rows that fit the figure. handles: artist by label."""
    if not handles:
        return
    # Width of an entry: a line sample with margins, and letters of about half the font size.
    letter = 0.55 * plt.rcParams["legend.fontsize"] / 72
    labels = [one_line(label.removeprefix(SHOWN)) for label in handles]
    widest = 0.5 + letter * max(map(len, labels))
    columns = min(len(handles), max(1, int(figure.get_figwidth() / widest)))
    rows = -(-len(handles) // columns)
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * (rows - 1))  # the panels keep theirs
    legend = figure.legend(handles.values(), map(str, range(len(handles))), handlelength=2.4,
                           loc="outside upper center", ncols=columns)
    for text, label in zip(legend.get_texts(), labels):
        text.set_text(label)


def panels(count, width, height, **more):
    """A figure with `count` panels side by side, in as many rows as the width needs."""
    columns = min(count, max(1, round(width / 2.2)))
    rows = -(-count // columns)
    figure, grid = plt.subplots(rows, columns, squeeze=False,
                                figsize=(width, 0.6 + height * rows), **more)
    for axes in list(grid.flat)[count:]:
        axes.remove()
    return figure, list(grid.flat)[:count]


def labelled(axes_list):
    """The labelled artists of all axes by label, without duplicates."""
    handles = {}
    for axes in axes_list:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    return handles


def relabel(names, labels):
    """`names`, or the labels of the command line, one for each."""
    if not labels:
        return names
    if len(labels) != len(names):
        raise PlotError(f"--labels: {len(labels)} labels for {len(names)} series "
                        f"({', '.join(names)}); a label with a comma is written in quotes")
    if len(set(labels)) < len(labels):
        raise PlotError("--labels: two labels are equal; allowed: one for each series")
    return labels


def styled_runs(paths, arguments):
    """The runs with their looks, and the labels of the command line."""
    runs = read_runs(paths)
    looks = looks_for([run.policy for run in runs])
    labels = relabel([run.label for run in runs], arguments.labels)
    return [dataclasses.replace(run, look=look, label=one_line(label))
            for run, look, label in zip(runs, looks, labels)]


def parse_list(text):
    """Words separated by commas; one in quotes may hold a comma."""
    try:
        return next(csv.reader([one_line(text)], strict=True, skipinitialspace=True), [])
    except csv.Error as error:
        raise argparse.ArgumentTypeError(f"'{text}': {error}") from None


def parse_formats(text):
    formats = text.split(",")
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"unknown format '{unknown[0]}'; allowed: {', '.join(FORMATS)}")
    return formats


def parse_width(text):
    try:
        width = WIDTHS.get(text) or float(text)
    except ValueError:
        width = 0
    if not 2.5 <= width <= 30:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no width; allowed: 1 or 2 columns of a paper, or inches from 2.5 to 30")
    return width


def make_parser(description, inputs, options):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("inputs", nargs="+", metavar=inputs, type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), metavar="PATH",
                        help="a folder, or a file whose suffix gives the format: .pdf, .png, .svg")
    parser.add_argument("--format", type=parse_formats, default=["png"], metavar="png,pdf,svg",
                        help="formats of the files in the folder --out (default: png)")
    parser.add_argument("--width", type=parse_width, metavar="1|2|INCHES",
                        help="one column of a two-column paper (3.35 in), two columns (7 in), or a "
                             "number of inches")
    parser.add_argument("--labels", type=parse_list, metavar="LABEL,...",
                        help="names of the series in the order of the legend; one with a comma is "
                             "written in quotes")
    if options:
        options(parser)
    return parser


def output_files(out, formats, stem):
    """The files to write: `out` itself if its suffix is a format, else files in that folder."""
    if out.suffix[1:] in FORMATS:
        return [out]
    return [out / f"{stem}.{name}" for name in formats]


def main(description, stem, draw, read=styled_runs, inputs="RUN_DIR", options=None):
    """The command line of a figure: writes draw(read(paths, arguments), arguments) to files named
    `stem`. options: adds arguments of the script to the parser."""
    arguments = make_parser(description, inputs, options).parse_args()
    try:
        use_style()
        figure = draw(read(arguments.inputs, arguments), arguments)
        for file in output_files(arguments.out, arguments.format, stem):
            file.parent.mkdir(parents=True, exist_ok=True)
            # Without a date, equal inputs give equal files.
            date = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
            figure.savefig(file, metadata=date.get(file.suffix))
            print(file)
    except (PlotError, OSError) as error:
        print(f"{stem}: {error}", file=sys.stderr)
        sys.exit(2)
