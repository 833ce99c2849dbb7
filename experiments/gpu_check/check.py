"""The context of all stages of a check: programs, time limits, and calls."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


class Failed(Exception):
    """A stage failed; `facts` are part of the summary."""

    def __init__(self, what, facts=None):
        super().__init__(what)
        self.facts = facts or {}


class Skipped(Exception):
    """A stage cannot run on this machine."""


class Check:
    """One run of the check."""

    def __init__(self, programs, out, quick, deadline, machine):
        self.programs = programs
        self.out = out
        self.quick = quick
        self.deadline = deadline
        self.machine = machine
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="gpu_check_"))

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def remove_scratch(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def call(self, command, seconds, environment=None):
        """Runs a command with a time limit of `seconds` or the remaining time, and returns its result.

        Cached choices of matrix product algorithms from earlier runs are not used."""
        limit = max(min(seconds, self.seconds_left()), 1)
        own = {**os.environ, "XDG_CACHE_HOME": str(self.scratch), **(environment or {})}
        return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              errors="replace", timeout=limit, check=False, cwd=self.scratch,
                              env=own)

    def twinserve(self, words, seconds):
        """Runs a command of twinserve that must succeed, and returns its stdout."""
        done = self.call([self.programs["twinserve"], *words], seconds)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["nothing said"]
            raise Failed(f"twinserve {words[0]} ended with {done.returncode}: {said[-1]}")
        return done.stdout

    def model(self):
        """The folder of the model that is measured."""
        return HERE / ("tiny_model" if self.quick else "model")

    def reference_models(self):
        """Folders of models with expected results: from the bundle, the data set, or tests/golden."""
        root = HERE.parent.parent
        for folder in (root / "models", root.parent / "shared/golden/models",
                       root / "tests/golden/models"):
            found = sorted(file.parent for file in folder.glob("*/expected.safetensors"))
            if found:
                return found[:1] if self.quick else found
        return []
