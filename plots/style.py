"""The common style of all figures, and the command line of the scripts that draw them."""
import argparse
import csv
import dataclasses
import difflib
import itertools
import math
import pathlib
import re
import sys
import typing
import warnings

import fonts
from caption import caption_text, latex_figure
from environment import matplotlib, np, plt
from policies import POLICIES, policy_named
from run_data import PlotError, read_runs

# Inches: one column, and the whole text. IEEE and ACM from the points of their classes; ICML and
# NeurIPS as their style files set them; USENIX from its two-column template.
VENUES = {"acm": (3.34, 7.01), "ieee": (3.49, 7.14), "usenix": (3.33, 7.0), "icml": (3.25, 6.75),
          "neurips": (5.5, 5.5)}
COLUMN_WIDTH, TEXT_WIDTH = VENUES["acm"]
LEGEND_ROW = 0.155  # inches
SHOWN = "\u200b"  # before labels that the library would hide because they begin with "_"
TICKS_MAX = 7
VECTOR_MARKERS_MAX = 20_000  # of a panel: more are a picture inside PDF and SVG
SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"

FORMATS = ("pdf", "png", "svg")

# Okabe and Ito's palette without yellow, and a grey. The three lists have lengths without a common
# divisor, so that series get equal looks in none of the three combined before 280.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#000000"]
FAINT = 0.35  # opacity of what matters less
MARKERS = ["o", "s", "D", "^", "v", "P", "X", "<", ">"]
DASHES = ["-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (7, 2, 2, 2))]
HATCHES = ["", "////", "....", "\\\\\\\\", "xxxx", "----", "oooo", "++++"]  # of areas
LINES_MAX = len(COLOURS) * len(DASHES)  # beyond, lines without markers would repeat

# What a style file may change, in the words of matplotlibrc.
SETTINGS = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "E4E4E4",
    "grid.linewidth": 0.5,
    "hatch.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "figure.dpi": 200,
    "savefig.dpi": 300,  # of png, and of dense layers of points inside pdf and svg
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.wspace": 0.08,  # of a panel's width: labels of one keep off the next
    "pdf.fonttype": 42,  # letters, not their outlines
    "svg.fonttype": "none",
    "svg.hashsalt": "twinserve",
}
VERDICTS = {"yes": "saturated", "undecided": "undecided"}  # of `saturated`, as legends name them
NOTE_SIZE = 6.5  # points: the smallest text of a figure


class Look(typing.NamedTuple):
    colour: str
    marker: str
    dash: object


def looks_for(policies, taken=()):
    """A look for each line, no two alike without colour. policies: that of each line, None for a
    line that stands for something else. A line has its policy's colour, and the first one of a
    policy its marker; other colours are the palette's. taken: looks of other lines of the figure.
    """
    if len(policies) + len(taken) > LINES_MAX:
        raise PlotError(f"{len(policies)} lines would look alike; allowed: at most "
                        f"{LINES_MAX - len(taken)}")
    styles = [None if policy is None else policy_named(policy) for policy in policies]
    reserved = {style.marker for style in styles if style} | {look.marker for look in taken}
    markers = [*(marker for marker in MARKERS if marker not in reserved),
               *(marker for marker in MARKERS if marker in reserved)]
    colours = {style.colour for style in styles if style} | {look.colour for look in taken}
    palette = [colour for colour in COLOURS if colour not in colours] or COLOURS
    looks = []
    for number, style in enumerate(styles):
        first = style is not None and policies.index(policies[number]) == number
        marker = style.marker if first else markers[number % len(markers)]
        wanted = marker, DASHES[(number + len(taken)) % len(DASHES)]
        used = {(look.marker, look.dash) for look in (*looks, *taken)}
        shape = next(pair for pair in [wanted, *itertools.product(markers, DASHES)]
                     if pair not in used)
        looks.append(Look(style.colour if style else palette[number % len(palette)], *shape))
    return looks


def use_style(file=None):
    """Sets the common style, changed by a style file if there is one, and fonts that have letters
    which its font lacks."""
    matplotlib.scale.register_scale(PlainLogScale)
    plt.rcParams.update(SETTINGS | {"text.parse_math": False})  # names hold dollars
    if file is not None:
        apply_style_file(file)
    fonts.add_fallbacks()


def style_text():
    """The common style as a style file."""
    settings = [f"{name}: {value}" for name, value in SETTINGS.items()]
    palette = ", ".join(colour[1:] for colour in COLOURS)
    policies = [f"policy.{name}: {policy.colour[1:]}" for name, policy in POLICIES.items()]
    return "\n".join(["# The style of twinserve's figures: lines of matplotlibrc, then colours.",
                      *settings, f"palette: {palette}", *policies]) + "\n"


def apply_style_file(file):
    """Lines of matplotlibrc, `palette: COLOUR, ...` and `policy.NAME: COLOUR`."""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        text = line.split("#", 1)[0].strip()
        if not text:
            continue
        name, colon, value = (part.strip() for part in text.partition(":"))
        where = f"{file}:{number}"
        if not colon or not value:
            raise PlotError(f"{where}: '{text}': is no setting; allowed: NAME: VALUE")
        if name == "palette":
            COLOURS[:] = [parse_colour(word.strip(), where) for word in value.split(",")]
        elif name.startswith("policy."):
            policy = name.removeprefix("policy.")
            POLICIES[policy] = policy_named(policy)._replace(colour=parse_colour(value, where))
        else:
            apply_setting(name, value, where)


def apply_setting(name, value, where):
    if name not in plt.rcParams:
        nearest = difflib.get_close_matches(name, plt.rcParams, n=1, cutoff=0)[0]
        raise PlotError(f"{where}: no setting '{name}'; nearest: {nearest}; allowed: settings of "
                        "matplotlibrc, palette, policy.NAME")
    try:
        plt.rcParams[name] = value
    except ValueError as error:
        raise PlotError(f"{where}: {' '.join(str(error).split())}") from None


def parse_colour(text, where):
    for colour in (f"#{text}", text):
        if matplotlib.colors.is_color_like(colour):
            return colour
    raise PlotError(f"{where}: '{text}' is no colour; allowed: RRGGBB, or a name such as black")


class PlainLogScale(matplotlib.scale.LogScale):
    """The scale "log" with labels that are text: those of the library are formulas."""

    def set_default_locators_and_formatters(self, axis):
        super().set_default_locators_and_formatters(axis)
        axis.set_major_locator(matplotlib.ticker.LogLocator(self.base, numticks=TICKS_MAX))
        axis.set_major_formatter(count_text)
        axis.set_minor_formatter("")


def count_text(value, _position=None):
    """A number on an axis in at most four letters, if it is round: 500, 20k, 3M, 0.01, 10\u207b\u00b3."""
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{sign}"
    exponent = round(math.log10(value)) if value > 0 else 0
    if exponent < -2 and math.isclose(value, 10**exponent):
        return "10\u207b" + "".join(SUPERSCRIPTS[int(digit)] for digit in str(-exponent))
    return f"{value:g}"


def size_text(value):
    """A setting on an axis: 16384, a power of two, is 16k."""
    return f"{value / 1024:g}k" if value >= 1024 and value % 1024 == 0 else count_text(value)


def stagger(number, count):
    """Which points of a line of many have markers: few, and not at the places of other lines."""
    return (0.02 + 0.2 * number / max(count, 1), 0.2)


def is_wide(values):
    """Whether the values are positive and over more than two decades: a logarithmic axis shows them
    all."""
    values = np.asarray([value for value in values if value is not None], float)
    values = values[~np.isnan(values)]
    return values.size > 0 and values.min() > 0 and values.max() > 100 * values.min()


def finish(figure):
    """Ticks: round numbers, at most seven, as many as there is room for; a logarithmic axis has at
    least two. Dense layers of points become pictures."""
    rasterise_dense_layers(figure)
    figure.draw_without_rendering()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_locator(), matplotlib.ticker.AutoLocator):
                room = max(2, min(TICKS_MAX - 1, axis.get_tick_space()))
                axis.set_major_locator(plt.MaxNLocator(room, steps=[1, 2, 5, 10]))
            if isinstance(axis.get_major_formatter(), matplotlib.ticker.ScalarFormatter):
                axis.set_major_formatter(count_text)
            if isinstance(axis.get_major_locator(), matplotlib.ticker.LogLocator):
                low, high = axis.get_view_interval()
                if sum(low <= tick <= high for tick in axis.get_majorticklocs()) < 2:
                    axis.set_major_locator(matplotlib.ticker.LogLocator(10, subs=(1, 2, 5)))
    keep_labels_inside(figure)


def keep_labels_inside(figure):
    """Moves labels of x axes that are wider than their panel off the edges of the figure."""
    figure.draw_without_rendering()
    edge = 0.01 * figure.dpi  # of an inch
    for axes in figure.axes:
        label = axes.xaxis.label
        extent = label.get_window_extent()
        right = extent.x1 - (figure.bbox.x1 - edge)
        left = figure.bbox.x0 + edge - extent.x0
        shift = -right if right > 0 else max(left, 0)
        if shift and label.get_text():
            label.set_x(label.get_position()[0] + shift / axes.bbox.width)


def marker_count(artist):
    """How many points without lines between them an artist draws; 0 for lines and areas."""
    if isinstance(artist, matplotlib.collections.PathCollection):
        return len(artist.get_offsets())
    if isinstance(artist, plt.Line2D) and artist.get_linestyle() in ("None", "none", "", " "):
        return len(artist.get_xdata())
    return 0


def rasterise_dense_layers(figure):
    """Draws the largest layers of points as pictures, until a panel has few enough points left for
    vector graphics. Axes, texts and lines stay vector graphics."""
    for axes in figure.axes:
        layers = sorted(axes.get_children(), key=marker_count)
        left = sum(map(marker_count, layers))
        while left > VECTOR_MARKERS_MAX:
            layer = layers.pop()
            layer.set_rasterized(True)
            left -= marker_count(layer)


def width_of(arguments, columns):
    """Inches: those of --width, or of so many columns of the venue's page."""
    asked = arguments.width or columns
    return VENUES[arguments.venue][asked - 1] if asked in (1, 2) else asked


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


def wrapped(text, inches, size):
    """A name in lines of at most so many inches of letters of `size` points."""
    room = max(8, int(inches / (0.55 * size / 72)))
    lines, line = [], ""
    for word in re.findall(r"\S+\s*|\s+", text):
        if line and fonts.width(line + word.rstrip()) > room:
            lines, line = [*lines, line.rstrip()], ""
        for letter in word:
            if fonts.width(line + letter.rstrip()) > room:
                lines, line = [*lines, line], ""
            line += letter
    return "\n".join([*lines, line])


def name_row(axes, text, inches, **more):
    """Writes the name of a row of panels, which are so high, beside the first of them."""
    bold = 1.15 * plt.rcParams["axes.labelsize"]
    axes.set_ylabel(wrapped(text, inches, bold), fontweight="bold", **more)


def common_setting(labels):
    """NAME of three or more labels "NAME = VALUE", if all labels with a value have this name."""
    names = [label.split(" = ")[0] for label in labels if label.count(" = ") == 1]
    return names[0] if len(names) > 2 and len(set(names)) == 1 else None


def legend_above(figure, handles):
    """Draws one legend above the panels, in rows that fit the figure. handles: artist by label."""
    if not handles:
        return
    # Width of an entry: a line sample with margins, and letters of about half the font size.
    labels = [one_line(label.removeprefix(SHOWN)) for label in handles]
    title = common_setting(labels)
    size = plt.rcParams["legend.fontsize"]
    labels = [wrapped(label.removeprefix(f"{title} = "), figure.get_figwidth() - 0.8, size)
              for label in labels]
    widest = 0.5 + 0.55 * size / 72 * max(fonts.width(line) for label in labels
                                          for line in label.split("\n"))
    columns = min(len(handles), max(1, int(figure.get_figwidth() / widest)))
    rows = -(-len(handles) // columns)
    columns = -(-len(handles) // rows)
    height = rows * max(label.count("\n") + 1 for label in labels) - 1 + bool(title)
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * height)  # the panels keep theirs
    legend = figure.legend(handles.values(), map(str, range(len(handles))), handlelength=2.4,
                           loc="outside upper center", ncols=columns, title=title,
                           title_fontsize=size)
    for text, label in zip(legend.get_texts(), labels):
        text.set_text(label)


def face_of(verdict, colour):
    """The look of a marker by `saturated`: hollow for yes, half filled for undecided."""
    if verdict == "yes":
        return {"markerfacecolor": "white", "markeredgewidth": 0.9}
    if verdict == "undecided":
        return {"fillstyle": "left", "markerfacecolor": colour, "markerfacecoloralt": "white",
                "markeredgewidth": 0.9}
    return {}


def bar_face(verdict, colour):
    """The face of a bar by `saturated`: white for yes, pale for undecided."""
    if verdict == "yes":
        return matplotlib.colors.to_rgba("white")
    return matplotlib.colors.to_rgba(colour, FAINT if verdict == "undecided" else 1)


def verdict_artists(verdicts, bars=False):
    """Artists by label for the verdicts among `verdicts` that change the look of points or bars."""
    grey = "#333333"

    def artist(verdict):
        if bars:
            return matplotlib.patches.Patch(facecolor=bar_face(verdict, grey), edgecolor=grey)
        return plt.Line2D([], [], color=grey, linestyle="none", marker="o",
                          **face_of(verdict, grey))
    return {label: artist(verdict) for verdict, label in VERDICTS.items() if verdict in verdicts}


def remark_verdicts(figure, verdicts, what, bars=False):
    """Counts saturated and undecided ones in the caption. what: such as `points`."""
    counts = [list(verdicts).count(verdict) for verdict in VERDICTS]
    looks = ("white", "pale") if bars else ("hollow", "half filled")
    texts = (f"{counts[0]} saturated: more arrives than is served ({looks[0]})",
             f"{counts[1]} undecided: runs too short to tell ({looks[1]})")
    shown = ", ".join(text for text, count in zip(texts, counts) if count)
    if shown:
        remark(figure, f"{what.capitalize()}: {shown}.")


def remark(figure, sentence):
    """Adds a sentence to the figure's caption, once."""
    figure.remarks = list(dict.fromkeys([*getattr(figure, "remarks", []), sentence]))


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
    """1 or 2 columns, or inches."""
    try:
        width = int(text) if text in ("1", "2") else float(text)
    except ValueError:
        width = 0
    if width not in (1, 2) and not 2.5 <= width <= 30:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no width; allowed: 1 or 2 columns of a paper, or inches from 2.5 to 30")
    return width


def make_parser(description, inputs, options):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("inputs", nargs="+", metavar=inputs, type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), metavar="PATH",
                        help="a folder, or a file whose suffix gives the format: .pdf, .png, .svg")
    parser.add_argument("--format", type=parse_formats, default=["pdf", "svg"],
                        metavar="pdf,svg,png",
                        help="formats of the files in the folder --out (default: pdf,svg)")
    parser.add_argument("--venue", choices=VENUES, default="acm",
                        help="whose columns give the width (default: acm)")
    parser.add_argument("--width", type=parse_width, metavar="1|2|INCHES",
                        help="one or two columns of the venue's page, or a number of inches")
    parser.add_argument("--labels", type=parse_list, metavar="LABEL,...",
                        help="names of the series in the order of the legend; one with a comma is "
                             "written in quotes")
    parser.add_argument("--latex", action="store_true",
                        help="write FIGURE.tex, too: the figure with its caption and label for \\input")
    parser.add_argument("--style", type=pathlib.Path, metavar="FILE",
                        help="a style file; `twinserve plot --print-style` prints the common one")
    if options:
        options(parser)
    return parser


def output_files(out, formats, stem):
    """The files to write: `out` itself if its suffix is a format, else files in that folder."""
    if out.suffix[1:] in FORMATS:
        return [out]
    return [out / f"{stem}.{name}" for name in formats]


def included_file(files):
    """The file that LaTeX includes."""
    for suffix in (".pdf", ".png"):
        for file in files:
            if file.suffix == suffix:
                return file
    raise PlotError("--latex: LaTeX reads no svg; allowed: with a figure in pdf or png")


def write_files(figure, files, stem):
    missing = fonts.missing_letters_warning(figure)
    if missing:
        print(f"{stem}: warning: {missing}", file=sys.stderr)
    with plt.rc_context(fonts.pdf_settings(figure)):
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            # Without a date, equal inputs give equal files.
            date = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
            figure.savefig(file, metadata=date.get(file.suffix))
            print(file)


def main(description, stem, draw, read=styled_runs, inputs="RUN_DIR", options=None):
    """The command line of a figure: writes draw(read(paths, arguments), arguments) to files named
    `stem`, and beside them a text for the caption. options: adds arguments of the script to the
    parser."""
    arguments = make_parser(description, inputs, options).parse_args()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from")  # write_files says it once
            use_style(arguments.style)
            figure = draw(read(arguments.inputs, arguments), arguments)
            finish(figure)
            files = output_files(arguments.out, arguments.format, stem)
            included = included_file(files) if arguments.latex else None
            write_files(figure, files, stem)
        remarks = getattr(figure, "remarks", [])
        caption = caption_text(stem, description, remarks, arguments.inputs)
        files[0].with_suffix(".txt").write_text(caption, encoding="utf-8")
        if included:
            wide = figure.get_figwidth() > VENUES[arguments.venue][0]
            included.with_suffix(".tex").write_text(
                latex_figure(included, stem, description, remarks, arguments.inputs, wide),
                encoding="utf-8")
    except (PlotError, OSError) as error:
        print(f"{stem}: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    print(style_text(), end="")
