"""Runs of twinserve for claims: sweeps, capacity searches and single runs, each in its own folder.

A folder is computed again only if the binary or a file that was given to it has changed.
"""
import csv
import hashlib
import json
import math
import pathlib
import shutil
import subprocess

KEY = "inputs.sha256"


def message(**fields):
    """The fields in the text format of Protocol Buffers; a dict is a message, a list repeats.

    A value Word(...) is written without quotes: words of enumerations.
    """
    return " ".join(field(name, value) for name, value in fields.items())


def field(name, value):
    if isinstance(value, dict):
        return f"{name} {{ {message(**value)} }}"
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], dict):
            return " ".join(field(name, each) for each in value)
        return f"{name}: [{', '.join(map(scalar, value))}]"
    return f"{name}: {scalar(value)}"


class Word(str):
    """A word of an enumeration."""


def scalar(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Word) or not isinstance(value, str):
        return str(value)
    return json.dumps(value)


def experiment(**fields):
    """The text of an experiment file. Only the summary is kept unless `outputs` says otherwise."""
    outputs = {name: False for name in ("requests_csv", "steps_csv", "series_csv", "record",
                                        "perfetto")}
    outputs.update(fields.pop("outputs", {}))
    return message(schema_version=1, **{"seed": 1, **fields, "outputs": outputs}) + "\n"


def number(text):
    try:
        return float(text)
    except ValueError:
        return text


def read_rows(path):
    """The rows of a CSV file, with numbers where a cell is one."""
    with path.open(newline="") as file:
        return [{name: number(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


class Simulator:
    def __init__(self, binary, out, jobs):
        self.binary, self.out, self.jobs = binary.resolve(), out.resolve(), jobs
        self.experiments = pathlib.Path(__file__).resolve().parents[2] / "experiments"
        self.binary_hash = hashlib.sha256(binary.read_bytes()).hexdigest()

    def sweep(self, name, experiments, axes=(), replications=1):
        """Simulates each experiment (text by label) at all values of the axes, (path, values).

        Returns the rows of summary.csv: means over the seeds, with the label in `base`.
        """
        study = message(schema_version=1, base=[f"{key}.textproto" for key in experiments]) + "\n"
        for path, values in axes:
            study += message(axis={"path": path, "values": [str(value) for value in values]}) + "\n"
        study += f"replications: {replications}\n"
        files = {**{f"{key}.textproto": text for key, text in experiments.items()},
                 "study.textproto": study}
        folder = self._folder(name, files, lambda folder: self._call(
            folder, "sweep", "study.textproto", "--out", "results", "--jobs", str(self.jobs)))
        rows = read_rows(folder / "results/summary.csv")
        for row in rows:
            base = str(row.get("base", next(iter(experiments))))
            row["base"] = base.rsplit("/", 1)[-1].removesuffix(".textproto")
            if row["errors"]:
                raise RuntimeError(f"{name}: a run of {row['base']} failed, see "
                                   f"{folder / 'results/results.csv'}")
        return rows

    def capacity(self, name, text, until, between, vary="workload.arrivals.rate", replications=4,
                 doublings=0, tolerance=0.01):
        """The largest value of `vary` at which `until` holds; None if it holds nowhere."""
        def search(folder):
            answer = self._call(
                folder, "capacity", "experiment.textproto", "--vary", vary, "--between",
                "{:g},{:g}".format(*between), "--until", until, "--replications",
                str(replications), "--doublings", str(doublings), "--tolerance", str(tolerance),
                "--jobs", str(self.jobs), "--format", "json")
            (folder / "capacity.json").write_text(answer)
        question = f"{until} {between} {vary} {replications} {doublings} {tolerance}"
        folder = self._folder(name, {"experiment.textproto": text, "question.txt": question},
                              search)
        found = json.loads((folder / "capacity.json").read_text())
        if found["verdict"] == "holds everywhere":
            raise RuntimeError(f"{name}: {until} holds at every value up to {between[1]}")
        value = found["value"]
        return None if value is None or math.isnan(value) else value

    def run(self, name, text, files=None, more=()):
        """One run; returns (summary, run directory). `files`: further files by name."""
        def once(folder):
            self._call(folder, "run", "experiment.textproto", "--out", "run", *more)
        folder = self._folder(name, {"experiment.textproto": text, **(files or {})}, once)
        return json.loads((folder / "run/summary.json").read_text()), folder / "run"

    def predicted_steps(self, name, steps, model, hardware, tensor=1, engine="v0"):
        """Milliseconds of steps by the measured profile of a device.

        steps: (decodes, their context in all, prompts, prompt tokens).
        """
        table = "decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens\n" + "".join(
            ",".join(map(str, step)) + "\n" for step in steps)
        folder = self._folder(name, {"in.csv": table, "device.txt": f"{model} {hardware} {tensor}"},
                              lambda folder: self._call(
            folder, "predict", "steps", "--hardware", hardware, "--model", model, "--tensor",
            str(tensor), "--engine", engine, "--in", "in.csv", "--out", "out.csv"))
        return [row["predicted_us"] / 1000 for row in read_rows(folder / "out.csv")]

    def cache_kb_per_token(self):
        """KV cache of every model preset, in kB (1000 bytes) a token."""
        return {row["model"]: row["kv_bytes_per_token"] / 1e3 for row in self._models()}

    def billions_of_parameters(self):
        return {row["model"]: row["parameters"] / 1e9 for row in self._models()}

    def _models(self):
        done = subprocess.run([str(self.binary), "doctor", "--list", "models", "--format", "json"],
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def write_curve(self, name, rows):
        """Keeps a table that a figure draws: OUT/NAME.csv."""
        with (self.out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def _folder(self, name, files, compute):
        """The folder `name` with these files, and what compute(folder) adds to it."""
        key = hashlib.sha256("\0".join([self.binary_hash, *files, *files.values()]).encode())
        folder, key = self.out / name, key.hexdigest()
        if not (folder / KEY).is_file() or (folder / KEY).read_text() != key:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for file, text in files.items():
                (folder / file).write_text(text)
            compute(folder)
            # Written last: a folder with a key is complete.
            (folder / KEY).write_text(key)
        return folder

    def _call(self, folder, *arguments):
        done = subprocess.run([str(self.binary), *arguments], cwd=folder, capture_output=True,
                              text=True)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise RuntimeError(f"{folder.name}: {said[-1]}")
        return done.stdout
