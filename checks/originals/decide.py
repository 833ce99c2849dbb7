"""Decides scheduling cases by an installed original: a case a line in, a result a line out.

Usage: decide.py SYSTEM PACKAGES ABSENT    (run by the Python of the original's environment)

The first line out names the parameters that the release has. Then, for each line that comes in,
{"steps": [...]}, with "truncated" after 400 iterations, or {"error": text}. For the line
"settings", the release's classes of settings with their fields and defaults.
"""
import dataclasses
import importlib
import json
import logging
import os
import pathlib
import signal
import sys
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ITERATIONS_MAX, SECONDS_MAX = 400, 60


def give_up(*_):
    raise TimeoutError(f"no decision within {SECONDS_MAX} s")


def decide(original, line):
    try:
        signal.alarm(SECONDS_MAX)
        steps = original.decide(json.loads(line), ITERATIONS_MAX)
        result = {"steps": steps}
        if steps and steps[-1]["it"] >= ITERATIONS_MAX:
            result["truncated"] = True
        return result
    except Exception as error:  # an original may fail in any way; the case is then reported
        text = " ".join(str(error).strip().splitlines())[:200]
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{pathlib.Path(frame.filename).name}:{frame.lineno}"
        return {"error": f"{type(error).__name__} at {place}{': ' * bool(text)}{text}"}
    finally:
        signal.alarm(0)


def default_of(field):
    """The default of a dataclass's field, as text."""
    default = field.default
    factory = getattr(default, "default_factory", None) or field.default_factory
    default = getattr(default, "default", default)  # of a pydantic field
    if factory not in (None, dataclasses.MISSING):
        return f"made by {getattr(factory, '__name__', factory)}"
    return "required" if default is dataclasses.MISSING or "Undefined" in repr(default) \
        else repr(default)


def settings(original):
    return {kind.__name__: {name: default_of(field)
                            for name, field in kind.__dataclass_fields__.items()}
            for kind in original.settings()}


def main():
    system, packages, absent_names = sys.argv[1:4]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever an original prints stays out of the results
    sys.path[:0] = [str(HERE), str(HERE.parent.parent / "apps/python/twinserve"), packages]
    logging.disable(logging.CRITICAL)
    from engines import absent
    absent.install([name for name in absent_names.split(",") if name])
    signal.signal(signal.SIGALRM, give_up)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller ends this process
    original = importlib.import_module(system)
    print(json.dumps(original.fields()), file=out, flush=True)
    for line in sys.stdin:
        if line == '"settings"\n':
            print(json.dumps(settings(original)), file=out, flush=True)
            continue
        print(json.dumps(decide(original, line), separators=(",", ":")), file=out, flush=True)


if __name__ == "__main__":
    main()
