"""Studies: all points of a sweep, and the largest load that keeps bounds."""
from __future__ import annotations

import math
import os
import pathlib
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twinserve import _extras, _native
from twinserve.cluster import run_missing
from twinserve.experiment import RunWarning, changes_of, report, source_of
from twinserve.policy import PolicyFile, policy_changes

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = _extras.pandas()

Progress = Callable[[str, int, int], None]


def sweep(study: str | os.PathLike[str], jobs: int | None = None, cluster: str | None = None, *,
          policy: PolicyFile | None = None, engine: str | None = None,
          overrides: Mapping[str, Any] | None = None,
          out: str | os.PathLike[str] | None = None,
          accept_other_build: bool = False, progress: Progress | None = None) -> pd.DataFrame:
    """Runs all points of a study (docs/studies.md), several at a time.

    study      path of a study file, or the text of one (as experiments in run())
    jobs       runs at a time; None: one per core. Results do not depend on it
    cluster    None: in this process. "auto": on the running Ray cluster, or on one that is started
               on this machine and ended afterwards; or the address of a cluster. Its nodes need
               twinserve in the same build and the study's files at the same paths. Nodes may be
               lost on the way; results are those of one process
    policy     decides in place of the experiments' policies, as --policy takes it: "fair.py:Fair",
               "libfair.so", or the name of a policy. Runs of a policy in Python are processes, so
               that several use several cores
    engine     the release whose scheduler the class `policy` is, as in run()
    overrides  changes to every experiment, as in run()
    out        a folder for results.csv, summary.csv, timing.csv and study.json, and, where pyarrow
               is installed, results.parquet: the table that is returned. A folder with a part of
               the same study is continued, also after Ctrl-C
    accept_other_build
               continues the folder also if another build of twinserve began it
    progress   as in run()

    Returns results.csv: one row per run with point, the axes by path, replication, seed, every key
    of summary.json, derived columns, and error (NaN where a run did not fail). A RunWarning gives
    the number of failed runs. attrs["axes"] names the axes, attrs["nodes"] the runs per node of a
    cluster.
    Raises InputError, KeyboardInterrupt; ImportError if a module is missing that a cluster needs.
    """
    _require_jobs(jobs)
    source, changes = source_of(study), [*policy_changes(policy, engine), *changes_of(overrides)]
    native = _native.Study(source, changes)
    nodes: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="twinserve-") as scratch:
        folder = os.fspath(out) if out is not None else os.path.join(scratch, "study")
        if cluster is None:
            failed, reports = native.sweep(folder, jobs or 0, accept_other_build, progress)
        else:
            rows = _native.StudyFolder(native, folder, accept_other_build)
            try:
                nodes, reports = run_missing(cluster, source, changes, native, rows, jobs, progress)
            finally:
                failed = rows.finish()
            report(rows.reports)
            del rows  # and its lock on the folder
        report(reports)
        if failed:
            warnings.warn(f"{failed} runs failed; the column error says why", RunWarning,
                          stacklevel=2)
        frame = _extras.read_csv(pathlib.Path(folder, "results.csv"),
                                 dtype={"error": str, "digest": str})
        frame.attrs["axes"] = list(native.columns)
        if nodes:
            frame.attrs["nodes"] = nodes
        if out is not None:
            _write_parquet(frame, pathlib.Path(folder, "results.parquet"))
    return frame


def _write_parquet(frame: pd.DataFrame, path: pathlib.Path) -> None:
    """If pyarrow is there."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return
    partial = path.with_name(f"{path.name}.partial.{os.getpid()}")
    try:
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def capacity(experiments: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], vary: str,
             between: tuple[float, float], until: str, *, policy: PolicyFile | None = None,
             engine: str | None = None,
             overrides: Mapping[str, Any] | None = None, replications: int = 20,
             confidence: float = 0.95, tolerance: float = 0.01, doublings: int = 5,
             jobs: int | None = None, smallest: bool = False,
             progress: Progress | None = None) -> pd.DataFrame:
    """The largest value of a setting, such as the rate, at which bounds on metrics hold.

    experiments   one experiment as in run(), or several, compared on the same seeds
    vary          field to vary, as in overrides: "workload.arrivals.rate"
    between       where to look: the bounds should hold at the first value and not at the second
    until         bounds joined by &&: "p99_ttft_ms<=1000 && p99_tpot_ms<=100"
    policy        decides in place of the experiments' policies, as in sweep()
    engine        the release whose scheduler the class `policy` is, as in run()
    overrides     changes to every experiment
    replications  seeds per value; low and high need 10
    confidence    of intervals and of the test behind low and high
    tolerance     relative precision of the value, and the effect of longer runs that is ignored
    doublings     how often runs are doubled at most, until it is shown that their length changes
                  less than the tolerance
    jobs          runs at a time; None: one per core
    smallest      the smallest value instead, such as the number of replicas: the bounds should hold
                  at the second value of between and not at the first

    Returns one row per experiment: experiment, value, low (the largest value that the test
    accepts), high (the smallest that it rejects; with smallest, low is the largest that it rejects
    and high the smallest that it accepts), verdict, limiting, runs, requests (per run, in
    the end), settled (None: a trace or a duration ends the runs, so that none are longer),
    monotone, change, change_low and change_high (what the last doubling changed about the value),
    and by_seed_mean, by_seed_low and by_seed_high (how far the seeds let the value move: the
    interval of its jackknife). Undefined numbers are NaN. attrs["probes"] lists the values that
    were tried, attrs["comparisons"] the ratios of the other experiments to the first.
    Raises InputError, KeyboardInterrupt.
    """
    several = [experiments] if isinstance(experiments, (str, os.PathLike)) else list(experiments)
    sources = [source_of(experiment) for experiment in several]
    names = [f"experiment {number}" if is_text else os.fspath(asked)
             for number, (asked, (_, is_text)) in enumerate(zip(several, sources))]
    _require_jobs(jobs)
    low, high = map(float, between)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise _native.InputError(f"between: is {low}, {high}; allowed: two finite numbers")
    for name, value, allowed in (
            ("replications", replications, replications >= 2),
            ("confidence", confidence, 0.5 <= confidence < 1),
            ("tolerance", tolerance, 0 < tolerance <= 0.5),
            ("doublings", doublings, 0 <= doublings <= 20)):
        if not allowed:
            raise _native.InputError(f"{name}: is {value}; allowed: see help(twinserve.capacity)")
    rows, probes, comparisons, reports = _native.capacity(
        sources, names, [*policy_changes(policy, engine), *changes_of(overrides)], vary,
        (low, high), until, replications, confidence, tolerance, doublings, jobs or 0, smallest,
        progress)
    report(reports)
    frame = pd.DataFrame(rows)
    frame.attrs.update(probes=probes, comparisons=comparisons)
    return frame


def _require_jobs(jobs: int | None) -> None:
    if jobs is not None and not 1 <= jobs <= 1024:
        raise _native.InputError(f"jobs: is {jobs}; allowed: 1 to 1024, or None")
