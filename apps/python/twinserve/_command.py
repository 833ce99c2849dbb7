"""The command twinserve: the commands of the program, `engines`, `examples` and `plot`."""
from __future__ import annotations

import ast
import difflib
import importlib.util
import os
import pathlib
import runpy
import shutil
import signal
import sys
from collections.abc import Callable

from twinserve import _native
from twinserve._extras import DATA, EXTRAS

_PLOTS = pathlib.Path(__file__).parent / "plots"


def main() -> None:
    """The console script."""
    # The program handles signals itself, and ends where nobody reads its output.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    _native.set_policy_host_command([sys.executable, "-m", "twinserve"], _paths_of_policies())
    code = _native.main([os.fsencode(word) for word in sys.argv], [
        ("engines", "Install and list releases of vLLM whose schedulers can decide",
         _ended(_engines)),
        ("examples", "List the experiments of the package, or copy them with traces and notebooks",
         _ended(_examples)),
        ("plot", "Draw a figure of runs (docs/figures.md)", _ended(_plot)),
    ])
    if code == 0 and sys.argv[1:] == ["doctor"]:
        print(_package_lines(), flush=True)
    sys.exit(code)


def _paths_of_policies() -> list[str]:
    """What a process of `twinserve judge` reads: Python, its modules, the package, the engines."""
    if sys.argv[1:2] != ["judge"]:
        return []
    from twinserve.engines import loading
    # sys.path begins with the folder of the script, or with the current one, which is not trusted.
    # The package may lie there, though.
    package = pathlib.Path(__file__).parent
    if str(package.parent) not in sys.path[1:]:
        os.environ["PYTHONPATH"] = os.pathsep.join(
            [*filter(None, [os.environ.get("PYTHONPATH")]), str(package.parent)])
    return [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path[1:],
            str(package), str(DATA), str(loading.folder())]


def _package_lines() -> str:
    """The package, and which of its extras are installed, as `doctor` shows them."""
    found = [extra for extra, modules in EXTRAS.items() if all(map(importlib.util.find_spec, modules))]
    missing = [extra for extra in EXTRAS if extra not in found]
    lines = [f"package   {pathlib.Path(__file__).parent}",
             f"extras    {', '.join(found) or 'none'}"]
    if missing:
        lines[1] += f"; not installed: {', '.join(missing)} (pip install \"twinserve[{missing[0]}]\")"
    return "\n".join(lines)


def _ended(command: Callable[[list[str]], None]) -> Callable[[list[str]], int]:
    """The command as a function that returns the exit code."""
    def call(words: list[str]) -> int:
        try:
            command(words)
            sys.stdout.flush()
        except SystemExit as end:
            if end.code is None or isinstance(end.code, int):
                return end.code or 0
            print(end.code, file=sys.stderr)
            return 1
        except _native.InputError as error:
            print(f"twinserve: {error}", file=sys.stderr)
            return 2
        except OSError as error:
            print(f"twinserve: {error}", file=sys.stderr)
            return 1
        return 0
    return call


def _engines(words: list[str]) -> None:
    from twinserve.engines import command
    command.main(words)


def _examples(words: list[str]) -> None:
    if words and words[0] in ("-h", "--help"):
        print("Usage: twinserve examples [FOLDER]\n\n"
              "Lists the experiments, studies and requests of the package by name: twinserve run "
              "quickstart/vllm_v1.\nWith FOLDER, copies them there, with traces and notebooks.")
        return
    if len(words) > 1 or words and words[0].startswith("-"):
        raise _native.InputError(f"examples: {' '.join(words)}: allowed: nothing, or a folder")
    if words:
        _copy_examples(pathlib.Path(words[0]))
    else:
        _list_examples(pathlib.Path(DATA, "experiments"))


def _copy_examples(folder: pathlib.Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise _native.InputError(f"examples: {folder}: exists; allowed: a new or empty folder")
    shutil.copytree(DATA, folder, dirs_exist_ok=True)
    print(f"wrote {folder}", file=sys.stderr)


def _list_examples(experiments: pathlib.Path) -> None:
    for question in sorted(path for path in experiments.iterdir() if path.is_dir()):
        files = sorted(path.relative_to(experiments).with_suffix("")
                       for path in question.rglob("*.textproto") if not path.name.startswith("_"))
        if files:
            title = (question / "README.md").read_text(encoding="utf-8").splitlines()[0]
            print(f"# {question.name}: {title.lstrip('# ')}", *files, sep="\n")


def _figures() -> dict[str, str]:
    """What each script of plots/ draws, by name."""
    figures = {}
    for path in sorted(_PLOTS.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "style.main(" in text:
            figures[path.stem] = (ast.get_docstring(ast.parse(text)) or "").split(".")[0]
    return figures


def _plot(words: list[str]) -> None:
    figures = _figures()
    if not words or words[0] in ("-h", "--help"):
        print("Usage: twinserve plot FIGURE RUN_DIR... [--out PATH]   (FIGURE --help: all options)\n"
              "       twinserve plot --print-style   (the style of all figures; --style FILE "
              "changes it)\n")
        for name, what in figures.items():
            print(f"  {name:<24}{' '.join(what.split())}")
        return
    if words == ["--print-style"]:
        runpy.run_module("twinserve.plots.style", run_name="__main__")
        return
    name, *arguments = words
    if name not in figures:
        nearest = difflib.get_close_matches(name, figures, n=1, cutoff=0)[0]
        raise _native.InputError(f'plot: no figure "{name}"; nearest "{nearest}"; allowed: '
                                 f"{', '.join(figures)}")
    sys.argv = [f"twinserve plot {name}", *arguments]
    runpy.run_module(f"twinserve.plots.{name}", run_name="__main__")
