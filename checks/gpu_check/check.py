"""The context of all stages of a check: programs, time limits, and calls."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from power_meter import power_meter

HERE = pathlib.Path(__file__).resolve().parent
TIMED_OUT = 124
CHOICES = "gemm_algorithms.tsv"
# Between the end of the last stage and the deadline: ending a program, packing.
END_SECONDS = 4
LOG_CHARACTERS = 4000


class Failed(Exception):
    """A stage failed; `facts` are part of the summary."""

    def __init__(self, what, facts=None):
        super().__init__(what)
        self.facts = facts or {}


class Stopped(Failed):
    """A stage failed so that no other stage can succeed."""


class Skipped(Exception):
    """A stage cannot run on this machine."""


def kill_group(process, number):
    """Whether the program, or what it started, was still there: they are a session of their own."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def end_group(process):
    """Ends a program and all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not kill_group(process, number):
            break
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            continue
    kill_group(process, signal.SIGKILL)  # what outlives the program itself


def last_line(text, otherwise="nothing said"):
    return (text.strip().splitlines() or [otherwise])[-1]


def seconds_for(budget, minimum, left):
    """How long a stage may take of what is left; None: less than its minimum is left."""
    usable = left - END_SECONDS
    return None if usable < minimum else min(budget, usable)


class Check:
    """One run of the check."""

    def __init__(self, programs, quick, deadline, machine, quarter=None, attention="auto",
                 overlap=True, previous=None, chosen_tests=None):
        self.programs = programs
        self.quick = quick
        self.deadline = deadline
        self.machine = machine
        self.quarter = quarter
        self.attention = attention  # the choice for all later stages, as --attention takes it
        self.overlap = overlap  # whether kernels may overlap in all later stages
        self.previous = previous  # the summary of the first quarter, or None
        self.chosen_tests = chosen_tests  # a filter for the stage `mended`
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="gpu_check_"))
        self.out = self.scratch / "results"
        self.out.mkdir()
        self.algorithms = self.scratch / "cache/twinserve" / CHOICES
        self.running = set()  # calls may come from several threads
        self.stopping = ""  # why nothing more is started
        self.log_lock = threading.Lock()
        self.meter = None if quick else power_meter()
        self.stage_deadline = deadline - END_SECONDS

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def begin_stage(self, seconds):
        """Calls of the stage that begins end after this time, or with all stages."""
        self.stage_deadline = min(time.monotonic() + seconds, self.deadline - END_SECONDS)

    def stage_left(self):
        return self.stage_deadline - time.monotonic()

    def stop(self, why):
        """Ends what is running, and lets nothing else start. Safe in a signal handler."""
        self.stopping = why
        for process in list(self.running):
            kill_group(process, signal.SIGKILL)

    def write_power(self):
        if self.meter:
            self.meter.write(self.out / "power.csv")

    def end(self):
        if self.meter:
            self.meter.end()
        for process in list(self.running):
            end_group(process)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def seed_algorithms(self, files):
        """Lets products be computed by what earlier calls measured. The program ignores lines of
        other devices and libraries."""
        texts = [file.read_text().splitlines() for file in files]
        texts = [lines for lines in texts if lines and lines[0] == texts[-1][0]]
        if texts:
            lines = dict.fromkeys(line for text in texts for line in text[1:])
            self.algorithms.parent.mkdir(parents=True, exist_ok=True)
            self.algorithms.write_text("\n".join([texts[-1][0], *lines]) + "\n")

    def environment(self):
        own = {**os.environ, "XDG_CACHE_HOME": str(self.scratch / "cache")}
        if not self.overlap:
            own["TWIN_KERNEL_OVERLAP"] = "0"
        return own

    def log(self, words, code, seconds, complaints):
        """calls.txt: every command, how it ended and when, and the end of what it complained of."""
        with self.log_lock, (self.out / "calls.txt").open("a") as file:
            file.write(f"$ {' '.join(words)}\n[{code}, {seconds:.2f} s, until {time.time():.2f}]\n"
                       f"{complaints[-LOG_CHARACTERS:]}\n")

    def call(self, command, seconds):
        """Runs a command, and returns its result: exit code 124 and what it had said if it takes
        more than `seconds`, or than is left for the stage."""
        words = [str(word) for word in command]
        limit = min(seconds, self.stage_left())
        if self.stopping or limit <= 0:
            raise Failed(self.stopping or f"no time is left for {pathlib.Path(words[0]).name}")
        begin = time.monotonic()
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
            process = subprocess.Popen(words, stdout=said, stderr=complained,
                                       stdin=subprocess.DEVNULL, cwd=self.scratch,
                                       env=self.environment(), start_new_session=True)
            code = self.wait(process, limit)
            texts = []
            for file in (said, complained):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        if code == TIMED_OUT:
            texts[1] += f"\n{pathlib.Path(words[0]).name} took more than {limit:.0f} s\n"
        self.log(words, code, time.monotonic() - begin, texts[1])
        return subprocess.CompletedProcess(words, code, *texts)

    def wait(self, process, limit):
        """The exit code; the program and all that it started are gone."""
        self.running.add(process)
        if self.stopping:  # since the call began
            kill_group(process, signal.SIGKILL)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = TIMED_OUT
        end_group(process)
        self.running.discard(process)
        return code

    def twinserve(self, words, seconds):
        """Runs a command of twinserve that must succeed, and returns its stdout."""
        done = self.call([self.programs["twinserve"], *words], seconds)
        if done.returncode != 0:
            raise Failed(f"twinserve {words[0]} ended with {done.returncode}: "
                         f"{last_line(done.stderr)}")
        return done.stdout

    def device(self):
        return self.machine["cuda"]["devices"][0]

    def attention_words(self):
        """Options of generate, bench and profile."""
        return [] if self.attention == "auto" else ["--attention", self.attention]

    def model(self):
        """The folder of the model that is measured."""
        return HERE / ("tiny_model" if self.quick else "model")

    def reference_models(self):
        """Folders of models with expected results, the tree's or the bundle's."""
        root = HERE.parent.parent
        for folder in (root / "models", root / "tests/golden/models"):
            found = sorted(file.parent for file in folder.glob("*/expected.safetensors"))
            if found:
                break
        return [folder for folder in found if not self.quick or folder.name == "tiny-llama"]
