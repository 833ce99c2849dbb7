"""Reading run directories."""
import dataclasses
import json
import pathlib
import re

from environment import pd
from policies import MEASURED, POLICIES, own_policy_name, policy_named

MEASURED_FILES = ("summary.json", "requests.csv", "vllm_bench.json")


class PlotError(Exception):
    """Bad input; the text is shown to the user as one line."""


@dataclasses.dataclass(frozen=True)
class Run:
    path: pathlib.Path
    policy: str
    summary: dict
    label: str
    look: object = None  # style.Look; no two runs of a figure have the same

    @property
    def colour(self):
        return self.look.colour

    @property
    def verdict(self):
        """Whether the run is saturated: yes, no, undecided; None for a measured run."""
        return self.number("saturated")

    def number(self, name):
        """A value of summary.json; None if it is undefined or absent."""
        return self.summary.get(name)

    def table(self, file, columns=()):
        """The given columns of a CSV file of the run, or all, as a data frame."""
        if not (self.path / file).is_file():
            if is_measured(self.path):
                raise PlotError(lacks(self.path, file))
            output = "record" if file == "parts.csv" else file.replace(".", "_")
            raise PlotError(f"{self.path / file}: does not exist; the run needs outputs {{ "
                            f"{output}: true }}")
        return read_table(self.path / file, columns)


def read_table(path, columns=()):
    """A CSV file as a data frame: the given columns, or all."""
    try:
        table = pd.read_csv(path, low_memory=False)
    except FileNotFoundError:
        raise PlotError(f"{path}: does not exist") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise PlotError(f"{path}: is not a CSV file: {str(error).splitlines()[0]}") from None
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise PlotError(f"{path}: has no column {', '.join(missing)}")
    return table[list(columns)] if columns else table


def read_json(file):
    try:
        found = json.loads(file.read_text())
    except ValueError as error:
        raise PlotError(f"{file}: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise PlotError(f"{file}: is not a JSON object")
    return found


def read_summary(path):
    file = path / "summary.json"
    if not file.is_file():
        raise PlotError(f"{path}: is not a run directory: it has no summary.json")
    return read_json(file)


def is_measured(path):
    """Whether it is the folder `measured` that `twinserve validate --measured` writes."""
    return (path / "measured.json").is_file()


def lacks(path, file):
    """Of a measured run, in one line."""
    has = [name for name in MEASURED_FILES if (path / name).is_file()]
    return f"{path}: is a measured run, which has no {file}; it has {', '.join(has)}"


def config_text(path):
    """Empty for a measured run, which was not configured here."""
    if is_measured(path):
        return ""
    file = path / "config.resolved.textproto"
    if not file.is_file():
        raise PlotError(f"{path}: is not a run directory: it has no config.resolved.textproto")
    return file.read_text()


def read_policy(path):
    """The policy's name in the configuration, that of a policy of the caller's own, or the class or
    file of policy.own; MEASURED for a measured run."""
    if is_measured(path):
        return MEASURED
    text = config_text(path)
    own = re.match(r"# `policy` did not decide: (.*) did, a policy of the caller\.$", text,
                   re.MULTILINE)
    found = own or re.search(r"^ *policy \{\s*(\w+) \{", text, re.MULTILINE)
    if not found:
        raise PlotError(f"{path / 'config.resolved.textproto'}: names no policy")
    return own_policy_name(text) if found.group(1) == "own" and not own else found.group(1)


def config_fields(text):
    """The fields of a resolved configuration by path; elements of a list are joined by commas."""
    fields, path = {}, []
    for line in map(str.strip, text.splitlines()):
        if line.endswith("{"):
            path.append(line[:-1].strip())
        elif line == "}":
            path.pop()
        elif ": " in line and not line.startswith("#"):
            name, value = line.split(": ", 1)
            key = ".".join([*path, name])
            value = value[1:-1] if value.startswith('"') and value.endswith('"') else value
            fields[key] = f"{fields[key]},{value}" if key in fields else value
    return fields


ESCAPE = re.compile(r"((?:\\[0-7]{3})+)|\\(.)")  # of the text format
LETTERS = {"n": "\n", "r": "\r", "t": "\t"}


def unescaped(text):
    """A string of the text format as its writer meant it."""
    def letters(found):
        octal, letter = found.groups()
        if octal is None:
            return LETTERS.get(letter, letter)
        return bytes(int(word, 8) for word in octal.split("\\")[1:]).decode(errors="replace")
    return ESCAPE.sub(letters, text)


def read_name(path):
    """`name` of the run's experiment; None for a measured run."""
    return unescaped(config_fields(config_text(path)).get("name", "")) or None


def line_labels(policies, names, texts):
    """The label of each line, no two alike: its policy, if no other line has this one; else the
    name of its experiment, if that tells the lines of the policy apart; else its text. `policies`
    and `names` have None where there is none."""
    labels = []
    for policy, name, text in zip(policies, names, texts):
        group = [one for one, other in zip(names, policies) if other == policy]
        if policy is not None and len(group) == 1:
            labels.append(policy_named(policy).label)
        elif None not in group and len(set(group)) == len(group):
            labels.append(POLICIES[name].label if name in POLICIES else name)
        else:
            labels.append(text)
    return labels if len(set(labels)) == len(labels) else texts


def shortest_names(paths):
    """The last parts of each path: as many as tell the paths apart."""
    parts = [path.resolve().parts for path in paths]
    length = 1
    while (length < max(map(len, parts))
           and len({part[-length:] for part in parts}) < len(set(parts))):
        length += 1
    return ["/".join(part[-length:]) for part in parts]


def read_runs(paths):
    """The runs in the order of the paths. Runs of one policy are labelled by the names of their
    experiments, or else by their folders."""
    policies = [read_policy(path) for path in paths]
    labels = line_labels(policies, [read_name(path) for path in paths], shortest_names(paths))
    return [Run(path, policy, read_summary(path), label)
            for path, policy, label in zip(paths, policies, labels)]
