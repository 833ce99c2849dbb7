#!/usr/bin/env python3
"""Runs the experiments whose run directories are not up to date. Results of EXPERIMENT.textproto go
to DIR/EXPERIMENT.

Usage: experiments/run_stale.py BINARY DIR EXPERIMENT_FILE...

A directory is up to date if the same binary made it from the same files: the experiment, its bases
(base:), and the traces and other files that they name. May be interrupted and repeated.
"""
import hashlib
import pathlib
import re
import subprocess
import sys

KEY = "inputs.sha256"
FILE_FIELD = re.compile(r'\b(?:base|\w*path|model|hardware)\s*:\s*"([^"]+)"')


def files_of(experiment):
    """The experiment's file, and every file that it or its bases name."""
    files, waiting = [], [experiment.resolve()]
    while waiting:
        file = waiting.pop()
        if file in files or not file.is_file():
            continue
        files.append(file)
        if file.suffix == ".textproto":
            waiting += [(file.parent / name).resolve()
                        for name in FILE_FIELD.findall(file.read_text())]
    return files


def key_of(binary, experiment, settings):
    """A hash of everything that the run depends on."""
    key = hashlib.sha256("\0".join(settings).encode())
    for file in (binary, *files_of(experiment)):
        key.update(hashlib.sha256(file.read_bytes()).digest())
    return key.hexdigest()


def run_unless_current(binary, experiment, settings, directory, stderr=subprocess.PIPE):
    """Returns "up to date" or "done". Throws RuntimeError if the run fails."""
    key = key_of(binary, experiment, settings)
    stamp = directory / KEY
    if stamp.is_file() and stamp.read_text() == key:
        return "up to date"
    command = [binary, "run", experiment, "--out", directory,
               *(part for setting in settings for part in ("--set", setting))]
    done = subprocess.run([str(part) for part in command], stdout=subprocess.DEVNULL,
                          stderr=stderr, text=True)
    if done.returncode != 0:
        said = (done.stderr or "").strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{directory.name}: {said[-1]}")
    # Written last: a directory with a key is complete.
    stamp.write_text(key)
    return "done"


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    binary, out, *experiments = map(pathlib.Path, sys.argv[1:])
    for experiment in experiments:
        # Progress and errors of the binary go to the terminal.
        result = run_unless_current(binary, experiment, [], out / experiment.stem, stderr=None)
        print(f"{experiment.stem}: {result}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError) as error:
        sys.exit(f"run_stale: {error}")
    except KeyboardInterrupt:
        sys.exit("run_stale: interrupted; finished runs are kept, the same command continues")
