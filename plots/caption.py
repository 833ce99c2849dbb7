"""The text beside a figure, for its caption: what it shows, of which runs, and how to draw it again;
as plain text, and as a figure of LaTeX."""
import json
import re
import shlex
import sys

CAPTION_MAX = 600  # letters, data included
NO_CAPTION = re.compile(r"Needs |Reads ")  # sentences for those who draw the figure


def caption_text(stem, description, remarks, paths):
    """`stem` and `description` of the script; `remarks`: sentences on this figure; `paths`: what it
    drew."""
    what = caption_words(description, remarks, [])
    data = "".join(f"  {path}: {facts_of(path)}\n" for path in paths)
    return f"{stem}. {what}\n\nData:\n{data}\nCommand: {command_line(stem)}\n"


def caption_words(description, remarks, paths):
    """A caption of at most CAPTION_MAX letters: the first sentence of the description, the remarks
    and the data; further sentences of the description while there is room. Data of more than two
    paths are summed up."""
    first, *more = re.split(r"(?<=\.) (?=[A-Z])", " ".join(description.split()))
    data = " ".join(f"{path.name}: {facts_of(path)}." for path in paths)
    if len(paths) > 2 or len(" ".join([first, *remarks, data])) > CAPTION_MAX:
        data = summary_of(paths)
    shown = [first]
    for sentence in more:
        if NO_CAPTION.match(sentence):
            continue
        if len(" ".join([*shown, sentence, *remarks, data])) > CAPTION_MAX:
            break
        shown.append(sentence)
    return " ".join(filter(None, [*shown, *remarks, data]))


LATEX = {letter: "\\" + letter for letter in "%_$&#{}"} | {
    "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}",
    "<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}"}


def latex_figure(file, stem, description, remarks, paths, wide):
    """A figure environment for `file`, which lies beside it, with caption and label. `wide`: over both
    columns of a page."""
    words = latex_words(caption_words(description, remarks, paths))
    kind = "figure*" if wide else "figure"
    return "\n".join([
        f"% {' '.join(command_line(stem).split())}", f"\\begin{{{kind}}}", "  \\centering",
        f"  \\includegraphics{{{file.name}}}", f"  \\caption{{{words}}}",
        f"  \\label{{fig:{re.sub('[^A-Za-z0-9]+', '-', file.stem)}}}", f"\\end{{{kind}}}", ""])


def latex_words(text):
    """Plain text as words of LaTeX."""
    escaped = "".join(LATEX.get(letter, letter) for letter in text)
    return re.sub(r'"(?=\w)', "``", escaped).replace('"', "''")


def command_line(stem):
    module = sys.argv[0].startswith("twinserve ")
    program = ["twinserve", "plot", stem] if module else ["plots/" + stem + ".py"]
    return shlex.join([*program, *sys.argv[1:]])


def facts_of(path):
    """Numbers, seeds and build of a run, or of a study; the kind of any other input."""
    folder = path if path.is_dir() else path.parent
    if (path / "summary.json").is_file():
        summary = read(path / "summary.json")
        if (path / "measured.json").is_file():
            return facts([f"measured ({read(path / 'measured.json').get('format', 'unknown')}), n = "
                          f"{summary.get('completed', 'unknown')} completed requests"])
        build = read(path / "provenance.json")
        return facts([f"run, n = {summary.get('completed', 'unknown')} completed requests",
                      f"seed {build.get('seed', 'unknown')}", build_text(build)])
    if (folder / "study.json").is_file():
        study = read(folder / "study.json")
        seeds = study.get("seeds") or ["unknown"]
        shown = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
        return facts([f"study, {study.get('points', 'unknown')} points, n = "
                      f"{study.get('replications', 'unknown')} runs each", f"seeds {shown}",
                      build_text(study)])
    if (path / "validation.json").is_file():
        runs = read(path / "validation.json").get("real_run_paths", [])
        return facts([f"validation, n = {len(runs)} real runs",
                      build_text(read(path / "simulated" / "provenance.json"))])
    return "file" if path.is_file() else "folder"


def summary_of(paths):
    """Numbers, seeds and builds of many inputs in one sentence."""
    folders = [path if path.is_dir() else path.parent for path in paths]
    runs = [found for path in paths if (found := read(path / "summary.json"))]
    studies = [found for path in folders if (found := read(path / "study.json"))]
    measured = sum((path / "measured.json").is_file() for path in paths)
    others = len(paths) - len(runs) - len(studies)
    builds = [read(path / "provenance.json") for path in paths] + studies
    seeds = [seed for one in builds for seed in one.get("seeds") or [one.get("seed")]]
    made = sorted({build_text(one) for one in builds if "commit" in one})
    return facts([counted(len(runs), "run"), f"{measured} of them measured" if measured else "",
                  span("n = ", [one.get("completed") for one in runs], " completed requests"),
                  counted(len(studies), "study"), counted(others, "other input"),
                  span("seeds ", seeds),
                  made[0] if len(made) == 1 else counted(len(made), "build")]) + "."


def counted(number, noun):
    plural = noun.removesuffix("y") + "ies" if noun.endswith("y") else noun + "s"
    return f"{number} {plural if number > 1 else noun}" if number else ""


def span(before, numbers, after=""):
    """The least and the largest of the numbers that are known."""
    known = [number for number in numbers if isinstance(number, int)]
    if not known:
        return ""
    low, high = min(known), max(known)
    return f"{before}{low}{after}" if low == high else f"{before}{low} to {high}{after}"


def facts(words):
    return ", ".join(word for word in words if word)


def build_text(document):
    """The program that made the data."""
    if "commit" not in document:
        return "made by an unknown build"
    changed = " with changes" if document.get("dirty") else ""
    return f"twinserve {document.get('version', '')} at commit {document['commit']}{changed}"


def read(file):
    """A JSON object; an empty one if the file is missing or damaged, which the text then says."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
