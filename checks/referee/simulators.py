"""Finds simulators: every file of a folder whose name does not begin with `_` is one.

A simulator is a module with a docstring (where its numbers come from; the command) and
`predict(run) -> Prediction`, which raises NotCovered or NotInstalled. It may also have
`intervals(run) -> {metric: (low, high)}`, where intervals take longer than the prediction, and
`identity() -> str`, which changes when predictions have to be made again.
"""
import importlib.util
import sys


class UsageError(Exception):
    """One line on the command line or a simulator's file; exit code 2."""


def names_in(folder):
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))


def load(folder, wanted=()):
    """{name: module} of the wanted simulators; all without any."""
    names = names_in(folder)
    if not names:
        raise UsageError(f"--simulators {folder}: holds no simulator; allowed: NAME.py files")
    for name in wanted:
        if name not in names:
            raise UsageError(f"--simulator: found '{name}'; allowed: {', '.join(names)}")
    return {name: load_file(folder / f"{name}.py", name) for name in wanted or names}


def load_file(path, name):
    # A prefix, since a simulator's file may be called like the package that it imports.
    spec = importlib.util.spec_from_file_location(f"referee_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if not callable(getattr(module, "predict", None)):
        raise UsageError(f"{path}: predict is missing; allowed: predict(run) -> Prediction")
    if not (module.__doc__ or "").strip():
        raise UsageError(f"{path}: a docstring is missing; allowed: where the numbers come from, "
                         "and the command")
    return module
