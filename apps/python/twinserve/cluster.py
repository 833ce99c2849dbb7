"""Studies on a Ray cluster: chunks of points as tasks, their rows as Arrow tables."""
from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from twinserve import _native

if TYPE_CHECKING:
    import pyarrow

Source = tuple[str, bool]
Reports = tuple[list[str], list[str]]  # warnings and notes
Build = tuple[str, str]

_ROWS_PER_TASK_MAX = 1000
_TASKS_PER_CPU = 8  # in all, so that the last ones end at about the same time
_WAITING_PER_CPU = 2  # handed over at a time
_RETRIES = 10  # of a task whose process or node is lost


def run_missing(address: str, source: Source, changes: list[str], study: _native.Study,
                folder: _native.StudyFolder, tasks_max: int | None,
                progress: Callable[[str, int, int], None] | None
                ) -> tuple[dict[str, int], Reports]:
    """Runs the rows that the folder misses on a cluster.

    address    "auto" (the running cluster, else one on this machine), or an address of Ray
    tasks_max  tasks at a time; None: one per CPU

    Returns the rows per node and the reports of the runs, each text once. What a lost node had not
    delivered is run again on others; every row is added to the folder once.
    """
    ray = _imported()
    if study.keeps_runs:
        raise _native.InputError("runs: run directories are written on this machine; "
                                 "allowed: a study without runs, or cluster=None")
    if not folder.missing:
        return {}, ([], [])
    own = not ray.is_initialized()
    if own:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(address=None if address == "auto" else address, logging_level="warning",
                 log_to_driver=False)
    try:
        cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
        at_a_time = tasks_max or _WAITING_PER_CPU * cpus
        call = functools.partial(
            ray.remote(num_cpus=1, max_retries=_RETRIES)(_rows_of).remote,
            source, changes, os.getcwd(), study.hash, (_native.version, _native.commit))
        return _collect(ray, call, _chunks(folder.missing, study.replications, cpus), folder,
                        at_a_time, progress)
    finally:
        if own:
            ray.shutdown()


def _collect(ray: Any, call: Callable[[list[int]], Any], chunks: Iterator[list[int]],
             folder: _native.StudyFolder, at_a_time: int,
             progress: Callable[[str, int, int], None] | None
             ) -> tuple[dict[str, int], Reports]:
    done, total = 0, len(folder.missing)
    nodes: dict[str, int] = {}
    warnings: dict[str, None] = {}
    notes: dict[str, None] = {}
    running: list[Any] = []
    try:
        while True:
            running += [call(chunk) for chunk in itertools.islice(chunks, at_a_time - len(running))]
            if not running:
                return nodes, (list(warnings), list(notes))
            ready, running = ray.wait(running)
            try:
                node, table, reports = ray.get(ready[0])
            except ray.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, _native.InputError) else error
            folder.append(table.to_pylist())
            nodes[node] = nodes.get(node, 0) + table.num_rows
            warnings.update(dict.fromkeys(reports[0]))
            notes.update(dict.fromkeys(reports[1]))
            done += table.num_rows
            if progress is not None:
                progress("runs", done, total)
    finally:
        for task in running:  # none, unless an exception ends the study
            ray.cancel(task)


def _chunks(rows: list[int], replications: int, cpus: int) -> Iterator[list[int]]:
    """Rows in rising order, as whole points."""
    points = [list(group) for _, group in itertools.groupby(rows, lambda row: row // replications)]
    size = -(-len(points) // (_TASKS_PER_CPU * cpus))
    size = max(1, min(size, _ROWS_PER_TASK_MAX // replications))
    for first in range(0, len(points), size):
        yield list(itertools.chain.from_iterable(points[first:first + size]))


def _rows_of(source: Source, changes: list[str], cwd: str, hash: str, build: Build,
             rows: list[int]) -> tuple[str, pyarrow.Table, Reports]:
    """Runs in a worker: the node, the rows, and the reports."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    here = (_native.version, _native.commit)
    if here != build:
        raise _native.InputError(f"node {node}: has twinserve {' at '.join(here)}; "
                                 f"allowed: {' at '.join(build)}")
    made, reports = _study(source, tuple(changes), cwd, hash, node).run_rows(rows, 1)
    return node, _table(made), reports


@functools.lru_cache(maxsize=1)
def _study(source: Source, changes: tuple[str, ...], cwd: str, hash: str,
           node: str) -> _native.Study:
    try:
        with contextlib.chdir(cwd):
            study = _native.Study(source, list(changes))
    except OSError as error:
        raise _native.InputError(f"node {node}: {error}; allowed: a cluster whose nodes have the "
                                 "study's folder at the same path") from None
    if study.hash != hash:
        raise _native.InputError(f"node {node}: its files of the study differ; allowed: the same "
                                 "files at the same paths on every node")
    return study


def _table(rows: list[dict[str, Any]]) -> pyarrow.Table:
    import pyarrow as pa

    types = {"seed": pa.uint64(), "error": pa.string()}
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: pa.array([row.get(name) for row in rows], type=types.get(name))
                     for name in names})


def _imported() -> Any:
    try:
        import pyarrow  # noqa: F401
        import ray
    except ImportError as error:
        raise ImportError(f"cluster: needs {error.name}; install it with: "
                          "python -m pip install ray pyarrow") from error
    return ray
