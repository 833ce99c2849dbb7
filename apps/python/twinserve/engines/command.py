"""`twinserve engines`: installs and lists the releases whose schedulers can decide."""
from __future__ import annotations

import sys

from twinserve._native import InputError
from twinserve.engines import RELEASES, loading
from twinserve.engines.environment import InstallError

_USAGE = """Usage: twinserve engines [list | install RELEASE | remove RELEASE]

Releases whose schedulers can decide in place of a policy (docs/engines.md). Without a GPU:
`install` takes the Python files of the release and what its scheduler needs, 175 MB, from PyPI.
They lie in $TWINSERVE_ENGINES, or else in the user's data folder."""


def main(words: list[str]) -> None:
    """Raises InputError, OSError, and SystemExit with a line where nothing can be installed."""
    command, *arguments = words or ["list"]
    if command in ("-h", "--help"):
        print(_USAGE)
    elif command == "list" and not arguments:
        here = loading.installed()
        for engine in RELEASES:
            print(engine, loading.place_of(engine).folder if engine in here else "not installed")
    elif command in ("install", "remove") and len(arguments) == 1:
        place = loading.place_of(
            arguments[0], lambda text: print(f"engines: {text}", file=sys.stderr, flush=True))
        if command == "remove":
            place.remove()
            return
        try:
            place.install()
        except InstallError as error:
            sys.exit(f"twinserve: engines: {error}")
        except KeyboardInterrupt:
            sys.exit("twinserve: engines: interrupted; the same command goes on")
        print(f"installed {arguments[0]}: {place.folder}", file=sys.stderr)
    else:
        raise InputError(f"engines: {' '.join(words)}: allowed: list, install RELEASE or remove "
                         f"RELEASE, where RELEASE is {', '.join(RELEASES)}")
