"""What the stages of a check share: programs, limits of time, and calling."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


class Failed(Exception):
    """A stage found something wrong; `facts` go into the summary all the same."""

    def __init__(self, what, facts=None):
        super().__init__(what)
        self.facts = facts or {}


class Skipped(Exception):
    """A stage has nothing to do here."""


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
        """Runs a command within so many seconds, or those that are left; what it said and did.

        Algorithms of matrix products are measured here, whatever an earlier run on this machine
        has kept."""
        limit = max(min(seconds, self.seconds_left()), 1)
        own = {**os.environ, "XDG_CACHE_HOME": str(self.scratch), **(environment or {})}
        return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              errors="replace", timeout=limit, check=False, cwd=self.scratch,
                              env=own)

    def twinserve(self, words, seconds):
        """A command of twinserve that must succeed: its stdout."""
        done = self.call([self.programs["twinserve"], *words], seconds)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["nothing said"]
            raise Failed(f"twinserve {words[0]} ended with {done.returncode}: {said[-1]}")
        return done.stdout

    def model(self):
        """The folder of the model that is measured."""
        return HERE / ("tiny_model" if self.quick else "model")

    def reference_models(self):
        """Folders of models with expected results: the bundle's, or the data set's, or the tiny one."""
        root = HERE.parent.parent
        for folder in (root / "models", root.parent / "shared/golden/models",
                       root / "tests/golden/models"):
            found = sorted(file.parent for file in folder.glob("*/expected.safetensors"))
            if found:
                return found[:1] if self.quick else found
        return []
