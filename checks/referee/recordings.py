"""Recorded runs in a compact form: those of the repository, and those that were imported.

A compact run is a JSON file with the fields of RecordedRun that a prediction needs. Content of
prompts is renumbered, as only equality matters.
"""
import dataclasses
import gzip
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "fidelity"))
from recorded_runs import DataError, RecordedRun, Request, read_all  # noqa: E402
from simulated_runs import recorded_measures  # noqa: E402

IN_REPOSITORY = HERE / "recorded"
COLUMNS = ("arrival", "prompt", "output", "ttft", "e2e", "chunks")
LEFT_OUT = ("requests", "gaps", "load", "load_by")  # of RecordedRun; requests become columns


def renumbered(chunks, numbers):
    return [numbers.setdefault(chunk, len(numbers)) for chunk in chunks]


def packed(run):
    """The compact form of a run, as bytes that do not depend on time or place."""
    numbers = {}
    columns = {name: [getattr(request, name) for request in run.requests] for name in COLUMNS}
    columns["chunks"] = [renumbered(chunks, numbers) for chunks in columns["chunks"]]
    fields = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)
              if field.name not in LEFT_OUT}
    text = json.dumps(fields | {"requests": columns}, separators=(",", ":"))
    return gzip.compress(text.encode(), mtime=0)


def unpacked(path):
    try:
        fields = json.loads(gzip.decompress(path.read_bytes()))
        columns = fields.pop("requests")
        columns["chunks"] = [tuple(chunks) for chunks in columns["chunks"]]
        requests = [Request(*row) for row in zip(*(columns[name] for name in COLUMNS), strict=True)]
        return RecordedRun(requests=requests, **fields)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: is no compact run: {error}") from None


def place_of(folder, run):
    return folder / run.data_set / f"{run.name.replace('/', '.')}.json.gz"


def usable(run):
    """Where clients gave up, those of a simulation, who wait, have other latencies."""
    failed = sum(request.e2e is None for request in run.requests)
    if failed:
        print(f"referee: {run.full_name}: left out, clients of {failed} requests gave up",
              file=sys.stderr)
    return not failed


def import_runs(data, folder):
    """Writes compact runs of every data set in `data`; returns how many."""
    runs = [run for run in read_all(str(data)) if usable(run)]
    if not runs:
        raise DataError(f"{data}: holds no recorded runs; checks/fidelity/README.md names the sets")
    for run in runs:
        path = place_of(folder, run)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed(run))
    return len(runs)


def read_compact(folders):
    """Every compact run of the folders, by full name, in order; the first of equal names."""
    found = {}
    for folder in folders:
        for path in sorted(folder.glob("*/*.json.gz")):
            run = unpacked(path)
            found.setdefault(run.full_name, run)
    return dict(sorted(found.items()))


def blind(run):
    """The run without the latencies that are to be predicted."""
    return dataclasses.replace(run, requests=[dataclasses.replace(request, ttft=None, e2e=None)
                                              for request in run.requests])


def recorded_ms(run, whole_run):
    """{metric: mean in milliseconds} of the recording, with or without its start (`skip_s`)."""
    values = recorded_measures(dataclasses.replace(run, skip_s=0) if whole_run else run)
    return {metric: 1e3 * values[f"{metric}_mean"] for metric in ("ttft", "tpot", "e2e")}
