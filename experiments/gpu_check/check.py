"""The context of all stages of a check: programs, time limits, and calls."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TIMED_OUT = 124
CHOICES = "gemm_algorithms.tsv"


class Failed(Exception):
    """A stage failed; `facts` are part of the summary."""

    def __init__(self, what, facts=None):
        super().__init__(what)
        self.facts = facts or {}


class Skipped(Exception):
    """A stage cannot run on this machine."""


def end_group(process):
    """Ends a program and all that it started: they are a session of their own."""
    for number, patience in ((signal.SIGTERM, 3), (signal.SIGKILL, 3)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    try:  # what outlives the program itself
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def last_line(text, otherwise="nothing said"):
    return (text.strip().splitlines() or [otherwise])[-1]


class Check:
    """One run of the check."""

    def __init__(self, programs, out, quick, deadline, machine):
        self.programs = programs
        self.out = out
        self.quick = quick
        self.deadline = deadline
        self.machine = machine
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="gpu_check_"))
        self.running = set()  # calls may come from several threads
        self.stage_deadline = deadline
        self.runs = []  # rows of e2e.csv

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def begin_stage(self, seconds):
        """Calls of the stage that begins end after this time, or with all stages."""
        self.stage_deadline = min(time.monotonic() + seconds, self.deadline)

    def end(self):
        """Ends what is running, and keeps the measured choices of algorithms with the results."""
        for process in list(self.running):
            end_group(process)
        chosen = self.scratch / "twinserve" / CHOICES
        if chosen.exists() and not self.quick:
            shutil.copy(chosen, self.out / CHOICES)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def call(self, command, seconds, environment=None):
        """Runs a command, and returns its result: exit code 124 and what it had said if it takes
        more than `seconds`, or than is left for the stage or for all of them.

        Cached choices of matrix product algorithms from earlier runs are not used."""
        left = self.stage_deadline - time.monotonic()
        limit = max(min(seconds, left), 1)
        own = {**os.environ, "XDG_CACHE_HOME": str(self.scratch), **(environment or {})}
        words = [str(word) for word in command]
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
            process = subprocess.Popen(words, stdout=said, stderr=complained,
                                       stdin=subprocess.DEVNULL, cwd=self.scratch, env=own,
                                       start_new_session=True)
            self.running.add(process)
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                code = TIMED_OUT
            end_group(process)
            self.running.discard(process)
            texts = []
            for file in (said, complained):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        if code == TIMED_OUT:
            texts[1] += f"\n{pathlib.Path(words[0]).name} took more than {limit:.0f} s\n"
        return subprocess.CompletedProcess(words, code, *texts)

    def twinserve(self, words, seconds):
        """Runs a command of twinserve that must succeed, and returns its stdout."""
        done = self.call([self.programs["twinserve"], *words], seconds)
        if done.returncode != 0:
            raise Failed(f"twinserve {words[0]} ended with {done.returncode}: "
                         f"{last_line(done.stderr)}")
        return done.stdout

    def model(self):
        """The folder of the model that is measured."""
        return HERE / ("tiny_model" if self.quick else "model")

    def reference_models(self):
        """Folders of models with expected results: the bundle's, or the data set's and tests/golden's."""
        root = HERE.parent.parent
        bundled = sorted(file.parent for file in (root / "models").glob("*/expected.safetensors"))
        found = bundled or sorted(
            file.parent for folder in (root.parent / "shared/golden/models",
                                       root / "tests/golden/models")
            for file in folder.glob("*/expected.safetensors"))
        if self.quick:
            return [folder for folder in found if folder.name == "tiny-llama"]
        # The models that attention kernels compute come first.
        return sorted(found, key=lambda folder: not folder.name.startswith("attention-"))
