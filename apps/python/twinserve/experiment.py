"""Runs: simulated or real, in this process or read from a run directory."""
from __future__ import annotations

import io
import json
import logging
import math
import os
import pathlib
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from twinserve import _extras, _native
from twinserve.policy import Policy, PolicyFile, made_policy, policy_changes

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow

_log = logging.getLogger("twinserve")
_WORDS = {"status": _native.request_statuses, "reject_reason": _native.reject_reasons}


class RunWarning(UserWarning):
    """The result is valid, but may not be what was expected."""


def run(
    experiment: str | os.PathLike[str],
    overrides: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    *,
    policy: Policy | Callable[[], Policy] | PolicyFile | None = None,
    engine: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Run:
    """Runs one experiment in the world that it names and returns its results.

    experiment  path of an experiment file, the name of one that `twinserve examples` lists, or the
                text of one: a str with a line break or a brace is a text, whose relative paths
                start at the current folder
    overrides   field path -> value, as --set on the command line: numbers, bools, strings, lists;
                None clears the field. {"workload.requests": 500, "policy.vllm_v1.max_num_seqs": 64}
    out         also writes this run directory; the tables are then read from it when asked for
    policy      a twinserve.Policy that decides in place of the experiment's, or a function or class
                without arguments that makes one; or what --policy takes: "fair.py:Fair",
                "libfair.so", or the name of a policy
    engine      the release whose scheduler the class `policy` is ("my_rules:MyScheduler"), such as
                "vllm==0.33.0"; its own scheduler without `policy` (docs/engines.md)
    progress    called as progress(what, done, total) about 20 times a second; a total of 0 is
                unknown

    The interpreter lock is released, so that runs on several threads use several cores. Ctrl-C in
    the main thread ends the run early and raises KeyboardInterrupt; a run directory then covers
    what had happened.
    Raises InputError, PolicyError (with a policy of the caller), RuntimeError, OSError.
    """
    text, is_text = source_of(experiment)
    changes = changes_of(overrides)
    if isinstance(policy, (str, os.PathLike)) or (policy is None and engine is not None):
        changes, policy = [*policy_changes(policy, engine), *changes], None
    elif engine is not None:
        raise _native.InputError("engine: belongs to a class that `policy` names; allowed with an "
                                 "object: twinserve.engines.policy(CLASS, engine)")
    scratch: list[str] = []

    def make_directory() -> str:
        # A real run is written, and read back, where no run directory was asked for.
        scratch.append(tempfile.mkdtemp(prefix="twinserve-"))
        return os.path.join(scratch[0], "run")

    try:
        native = _native.run(
            text, is_text, changes,
            os.fspath(out) if out is not None else make_directory, made_policy(policy), progress)
    except BaseException:
        for folder in scratch:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    report((native.warnings, native.notes))
    return Run(native=native, scratch=scratch[0] if scratch else None)


def resolve(experiment: str | os.PathLike[str], overrides: Mapping[str, Any] | None = None) -> str:
    """The experiment in text format with all defaults filled in. Raises InputError."""
    text, is_text = source_of(experiment)
    return _native.resolve(text, is_text, changes_of(overrides))


def load(run_dir: str | os.PathLike[str]) -> Run:
    """The run of a run directory. Tables are read when asked for. Raises InputError."""
    path = pathlib.Path(run_dir)
    if not (path / "summary.json").is_file():
        raise _native.InputError(f"{path}: is not a run directory: it has no summary.json")
    return Run(directory=path)


@dataclass(frozen=True)
class Replay:
    """What happened when the scheduler ran again on recorded events."""

    equal: bool  # every plan is identical
    digest: str  # of the plans decided now
    plans: int
    equal_plans: int  # before the first that differs
    difference: str | None  # the first plan that differs


def replay(run_dir: str | os.PathLike[str],
           policy: Policy | Callable[[], Policy] | None = None) -> Replay:
    """Runs the scheduler again on a recorded run and compares every plan.

    `policy`: decides in place of the one that the run's experiment names; a policy that it names by
    its file is found without.
    Raises InputError, PolicyError.
    """
    return Replay(**_native.replay(os.fspath(run_dir), made_policy(policy)))


class Run:
    """The results of one run. Made by run() and load()."""

    def __init__(self, *, native: Any = None, directory: pathlib.Path | None = None,
                 scratch: str | None = None):
        self._native = native
        self._scratch = scratch
        if scratch is not None:
            weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
        if native is not None and native.directory is not None:
            directory = pathlib.Path(native.directory)
        self._directory = directory

    @property
    def directory(self) -> pathlib.Path | None:
        """The run directory, if there is one."""
        return None if self._scratch is not None else self._directory

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The keys of summary.json: counts, latencies, throughput; undefined numbers are None."""
        if self._native is None:
            assert self._directory is not None
            return json.loads((self._directory / "summary.json").read_text(encoding="utf-8"))
        return {name: None if isinstance(value, float) and not math.isfinite(value) else value
                for name, value in self._native.summary.items()}

    @property
    def digest(self) -> str:
        """Hash of all decisions: equal digests mean identical plans."""
        return self.summary["digest"]

    @cached_property
    def config(self) -> str:
        """The complete experiment in text format; run() takes it."""
        if self._directory is None:
            return self._native.config
        return (self._directory / "config.resolved.textproto").read_text(encoding="utf-8")

    @cached_property
    def requests(self) -> pd.DataFrame:
        """One row per request, in the order in which they left: the columns of requests.csv."""
        if self._directory is not None:
            return self._read("requests.csv", "requests_csv")
        return _frame(self._native.requests, "requests_csv")

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row per step, in the order in which they ended: the columns of steps.csv."""
        if self._directory is not None:
            return self._read("steps.csv", "steps_csv")
        return _frame(self._native.steps, "steps_csv")

    @cached_property
    def series(self) -> pd.DataFrame:
        """One row per interval of time: the columns of series.csv."""
        if self._directory is not None:
            return self._read("series.csv", "series_csv")
        if self._native.series is None:
            raise _missing("series_csv")
        return _read_csv(io.StringIO(self._native.series))

    def to_arrow(self, table: str = "requests") -> pyarrow.Table:
        """`requests`, `steps` or `series` as a pyarrow.Table; numbers are not copied."""
        pa = _extras.pyarrow()
        if table not in ("requests", "steps", "series"):
            raise _native.InputError(
                f'table: is "{table}"; allowed: requests, steps, series')
        frame: pd.DataFrame = getattr(self, table)
        columns = {}
        for name in frame.columns:
            column = frame[name]
            columns[name] = (pa.Array.from_pandas(column) if column.dtype == "category"
                             else pa.array(column.to_numpy(), from_pandas=False))
        return pa.table(columns)

    def _read(self, name: str, field: str) -> pd.DataFrame:
        assert self._directory is not None
        path = self._directory / name
        if not path.is_file():
            raise _missing(field, path)
        return _read_csv(path)

    def __repr__(self) -> str:
        summary = self.summary
        return (f"<twinserve.Run {summary['digest']}: {summary['completed']} of "
                f"{summary['requests']} requests completed>")


def _missing(field: str, path: pathlib.Path | None = None) -> Exception:
    where = f"{path}: " if path is not None else ""
    return _native.InputError(f"{where}was not collected; allowed: outputs.{field}: true")


def _frame(columns: Any, field: str) -> pd.DataFrame:
    if columns is None:
        raise _missing(field)
    pd = _extras.pandas()
    data = {}
    for name, (values, words) in columns.items():
        data[name] = values if words is None else pd.Categorical.from_codes(values, words)
    return pd.DataFrame(data, copy=False)


def _read_csv(source: Any) -> pd.DataFrame:
    pd = _extras.pandas()
    frame = _extras.read_csv(source, dtype={name: str for name in _WORDS})
    for name, words in _WORDS.items():
        if name in frame:
            frame[name] = pd.Categorical(frame[name], words)
    if "status" in frame:  # undefined times of all requests are read as a column without type
        for name in frame.columns:
            if name.endswith(("_s", "_ms")):
                frame[name] = frame[name].astype(float)
    return frame


def report(reports: tuple[list[str], list[str]]) -> None:
    """Gives warnings and notes of a call of the package to the caller and the log."""
    texts, notes = reports
    for note in notes:
        _log.info(note)
    for text in texts:
        warnings.warn(text, RunWarning, stacklevel=3)


def source_of(experiment: str | os.PathLike[str]) -> tuple[str, bool]:
    """A path, which a name stands for, or the text of a file, and whether it is a text."""
    text = os.fspath(experiment)
    is_text = isinstance(experiment, str) and ("\n" in text or "{" in text)
    return text if is_text else _native.experiment_file(text), is_text


def changes_of(overrides: Mapping[str, Any] | None) -> list[str]:
    """The changes in the form of --set."""
    return [f"!{path}" if value is None else f"{path}={_value(value)}"
            for path, value in (overrides or {}).items()]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_quoted(item) for item in value) + "]"
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):  # a number of numpy
        return _value(value.item())
    return str(value)


def _quoted(item: Any) -> str:
    return json.dumps(item, ensure_ascii=False) if isinstance(item, str) else _value(item)
