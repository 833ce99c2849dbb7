"""Runs the commands of a page, in order, in one shell in a scratch folder.

Usage: run_page.py SOURCE_ROOT BUILD_DIR BINARY PAGE... [--python PYTHON] [--list]

Commands are the blocks that begin with ```sh, and the code in running text and tables that is a whole
command line: a program of PROGRAM with arguments. They must succeed. `twinserve VERB` in text names a
command, which must exist, and so must files that the text names. Blocks of ```python run, too. A page
that has a command anywhere else, in an indented block for example, fails.

- given/PAGE.sh, if it exists, is run first: it makes the files that the page takes as given. Capital
  words for which it has a variable (STUDY=runs/study) are placeholders in the commands; `...` behind
  one is dropped, and so are the brackets around [--options].
- exceptions.py names the commands that are not run, and those that are run with smaller inputs.
- `twinserve` is BINARY, or the package's command after `use_package` in given/PAGE.sh.

PYTHON is the interpreter of build/venv; without it, what needs it is left out and named. --list prints
the commands and does not run them.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import exceptions

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 5
FILE = r"(?:tools|plots|experiments|checks)/[\w./-]+"
PROGRAM = re.compile(
    rf"(?:[A-Z_]+=\S+ )*(?:(?:\S+/)?twinserve|python3?|build/\S+|pip3?|c?make|ctest|curl|git|mpirun"
    rf"|\./(?:test|quickstart)|{FILE}|(?:tests|apps)/[\w./-]+)(?= +[^\s|])")
NAME = re.compile(r"twinserve(?: [a-z]+)+")
# Programs that may be missing on a machine.
NEEDS_PYTHON = re.compile(r"(?:[A-Z_]+=\S+ )*(?:build/venv/bin/python|plots/|python )")


class Command:
    """A command line of a page, or a block of Python."""

    def __init__(self, page, line, text, kind):
        self.place, self.text, self.kind = f"{page}:{line}", text, kind

    def __str__(self):
        return f"{self.place}: {self.text}"


def logical_lines(lines):
    """(number, line) of the block with continued lines joined."""
    joined, start = "", 0
    for number, line in enumerate(lines):
        start = start if joined else number
        joined += line
        if joined.endswith("\\"):
            joined = joined[:-1].rstrip() + " "
            continue
        yield start, joined
        joined = ""
    if joined:
        yield start, joined


def without_comment(line):
    return " ".join(re.sub(r"\s+# .*$", "", line).split())


class Page:
    """The commands of a page, and what is wrong with its form."""

    def __init__(self, root, name):
        self.name, self.commands, self.wrong, self.files = name, [], [], []
        lines = (root / name).read_text(encoding="utf-8").splitlines()
        text, fence, begin = [], None, 0
        for number, line in enumerate(lines + [""], 1):
            mark = re.match(r"\s*```(.*)$", line)
            if mark and fence is None:
                self.take_text(text)
                fence, begin, text = mark[1].strip(), number, []
            elif mark:
                self.take_block(fence, begin + 1, text)
                fence, text = None, []
            elif fence is None and not line.strip():
                self.take_text(text)
                text = []
            else:
                text.append(line if fence is not None else (number, line))
        if fence is not None:
            self.wrong.append(f"{name}:{begin}: the block does not end")

    def take_block(self, fence, begin, lines):
        if fence == "sh":
            for number, line in logical_lines(lines):
                self.commands.append(Command(self.name, begin + number, line, "block"))
        elif fence == "python":
            self.commands.append(Command(self.name, begin, "\n".join(lines), "python"))
        else:
            for number, line in enumerate(lines):
                if line.startswith("$ ") or PROGRAM.match(line):
                    self.wrong.append(f"{self.name}:{begin + number}: a command outside of a ```sh block: {line}")

    def take_text(self, numbered):
        """Code in a paragraph, list or table: `code` may go on in the next line."""
        if not numbered:
            return
        for number, line in numbered:
            if line.startswith("    ") and (PROGRAM.match(line.strip()) or line.strip().startswith("./")):
                self.wrong.append(f"{self.name}:{number}: a command outside of a ```sh block: {line.strip()}")
        text = "\n".join(line for _, line in numbered)
        for code in re.finditer(r"(`+)(.+?)\1", text, re.DOTALL):
            line = numbered[0][0] + text.count("\n", 0, code.start())
            words = " ".join(code[2].split()).replace("\\|", "|")
            if NAME.fullmatch(words):
                self.commands.append(Command(self.name, line, f"{words} --help", "name"))
            elif PROGRAM.match(words):
                self.commands.append(Command(self.name, line, words, "text"))
            elif re.fullmatch(FILE, words):
                self.files.append((line, words))


def missing_files(root, page):
    return [f"{page.name}:{line}: no file {name}" for line, name in page.files if not (root / name).exists()]


class Selection:
    """Which commands of a page are run, and how."""

    def __init__(self, page, with_python):
        self.run, self.left_out, self.missing = [], [], []
        not_run = exceptions.NOT_RUN.get(page.name, {})
        smaller = exceptions.SMALLER.get(page.name, {})
        unused = set(not_run) | set(smaller)
        for command in page.commands:
            key = command.text.split("\n")[0] if command.kind == "python" else without_comment(command.text)
            unused.discard(key)
            if key in not_run:
                self.left_out.append((command, not_run[key]))
                continue
            if key in smaller:
                command.text = smaller[key]
            if not with_python and (command.kind == "python" or NEEDS_PYTHON.match(command.text)):
                self.missing.append(command)
            else:
                self.run.append(command)
        self.wrong = [f"exceptions.py: {page.name} has no command {key}" for key in sorted(unused)]
        self.wrong += [f"exceptions.py: {page.name}: unknown reason {reason!r}"
                       for reason in not_run.values() if reason.split(":")[0] not in exceptions.REASONS]


# What given/PAGE.sh may use: `needs PROGRAM`, which skips the page without it; `use_package`; and
# `start_server EXPERIMENT OPTION...` on the free port $port.
PRELUDE = """
shopt -s expand_aliases
set -euo pipefail
needs() { command -v "$1" > /dev/null || { echo "skipped: $1 is not installed"; exit 5; }; }
use_package() { twinserve() { build/venv/bin/python -m twinserve "$@"; }; }
python() { build/venv/bin/python "$@"; }
server=
stop_server() { if [ "$server" ]; then kill -KILL "$server"; wait "$server" || true; server=; fi; }
trap stop_server EXIT
start_server() {
  stop_server
  rm -f ready.json
  build/release/apps/twinserve serve "$@" --port 0 --ready-file ready.json &
  server=$!
  until [ -s ready.json ]; do kill -0 "$server"; sleep 0.1; done
  port=$(tr -cd 0-9 < ready.json)
}
"""


def shell_text(command, placeholder):
    """A command as the shell takes it."""
    if command.kind == "python":
        text = command.text if "import twinserve" in command.text else "import twinserve\n" + command.text
        return f"build/venv/bin/python - <<'END_OF_BLOCK'\n{text}\nEND_OF_BLOCK"
    text = placeholder.sub(lambda match: "$" + match[0].removesuffix("..."), command.text)
    text = re.sub(r"\[(-[^\[\]]*|\$[A-Z_]+)\]", r"\1", text)
    return re.sub(r"^plots/", "build/venv/bin/python plots/", text)


def script_of(commands, given):
    names = re.findall(r"^([A-Z_]+)=", given, re.MULTILINE)
    placeholder = re.compile(rf"(?<![\w$])(?:{'|'.join(names)})\b(?:\.\.\.)?" if names else r"(?!)")
    lines = [PRELUDE, f"given={HERE / 'given'}", given, "set -x"]
    for before, command in zip([None, *commands], commands):
        if before is None or "block" != before.kind or "block" != command.kind:
            lines.append(f": {command.place}")
        lines.append(shell_text(command, placeholder))
    return "\n".join(lines)


def fill_scratch(folder, root, build, binary, python):
    """What the source tree has, so that no command writes into it."""
    for shared in ("apps", "checks", "experiments", "plots", "sim", "tools", "traces"):
        (folder / shared).symlink_to(root / shared)
    shutil.copytree(root / "docs", folder / "docs")
    (folder / "build/release/apps").mkdir(parents=True)
    (folder / "build/release/apps/twinserve").symlink_to(binary)
    if (build / "python").exists():
        (folder / "build/release/python").symlink_to(build / "python")
    if python is not None:
        (folder / "build/venv/bin").mkdir(parents=True)
        # Not a link: an environment's interpreter finds its packages from where it lies.
        wrapper = folder / "build/venv/bin/python"
        wrapper.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n', encoding="utf-8")
        wrapper.chmod(0o755)


def run(page, root, build, binary, python):
    """The exit status of a page."""
    selection = Selection(page, python is not None)
    wrong = page.wrong + missing_files(root, page) + selection.wrong
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    given = HERE / "given" / (page.name.removeprefix("docs/").removesuffix(".md").replace("/", "_") + ".sh")
    given_text = given.read_text(encoding="utf-8") if given.exists() else ""
    needs_package = "use_package" in given_text or any(one.kind == "python" for one in selection.run)
    if needs_package and (python is None or not list((build / "python").glob("twinserve/_native*"))):
        print(f"{page.name}: skipped: the Python package is not built, or build/venv is missing")
        return SKIPPED
    for command in selection.missing:
        print(f"{command}: left out: build/venv is missing")
    if not selection.run:
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        fill_scratch(folder, root, build, binary, python)
        paths = f"{folder / 'build/release/apps'}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": paths, "PYTHONPATH": str(build / "python"),
                       "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(["bash", "-c", script_of(selection.run, given_text)], cwd=folder, env=environment,
                              stdin=subprocess.DEVNULL, check=False)
    return done.returncode


def print_list(page):
    selection = Selection(page, True)
    for command in selection.run:
        print(f"runs      {command}")
    for command, reason in selection.left_out:
        print(f"not run   {command}    {reason}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("root", type=pathlib.Path)
    arguments.add_argument("build", type=pathlib.Path)
    arguments.add_argument("binary", type=pathlib.Path)
    arguments.add_argument("pages", nargs="+")
    arguments.add_argument("--python", type=pathlib.Path)
    arguments.add_argument("--list", action="store_true")
    given = arguments.parse_args()
    root = given.root.resolve()
    # Not resolved: the interpreter of an environment is a link.
    python = given.python and given.python.absolute()
    statuses = []
    for name in given.pages:
        page = Page(root, name)
        if given.list:
            print_list(page)
        else:
            statuses.append(run(page, root, given.build.resolve(), given.binary.resolve(), python))
    sys.exit(max((status for status in statuses if status != SKIPPED), default=0) or max(statuses, default=0))


if __name__ == "__main__":
    main()
