"""Runs side by side."""
from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twinserve import _extras, _native
from twinserve.experiment import Run, load

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = _extras.pandas()


@dataclass(frozen=True)
class Comparison:
    """The metrics of runs, and the fields in which their experiments differ."""

    metrics: pd.DataFrame  # row per metric: a column per run, and the change to the first run, %
    config: pd.DataFrame  # row per field that differs: a column per run; "-" where it is not set

    def __repr__(self) -> str:
        return f"{self.metrics.to_string()}\n\n{self.config.to_string()}"


def compare(*runs: Run | str | os.PathLike[str],
            metrics: Sequence[str] | None = None) -> Comparison:
    """Compares runs with the first of them, as `twinserve compare` does.

    runs     results of run() and load(), or run directories
    metrics  keys of summary.json; None: the main ones, as the command line prints them; "all": all
    Raises InputError.
    """
    loaded = [item if isinstance(item, Run) else load(item) for item in runs]
    names = _names(loaded)
    known = list(dict.fromkeys(key for item in loaded for key in item.summary))
    if metrics is None:
        asked = [key for key in _native.headline_metrics if key in known]
    else:
        asked = known if metrics == "all" else list(metrics)
    unknown = [key for key in asked if key not in known]
    if unknown:
        raise _native.InputError(f"metrics: no run has {unknown[0]}; allowed: keys of summary.json")
    values = {name: [item.summary.get(key) for key in asked] for name, item in zip(names, loaded)}
    table = pd.DataFrame(values, index=pd.Index(asked, name="metric"))
    for name in names[1:]:
        table[f"{name} change_percent"] = [_change(first, value)
                                           for first, value in zip(table[names[0]], table[name])]
    fields = _native.config_differences([(name, item.config) for name, item in zip(names, loaded)])
    config = pd.DataFrame([values for _, values in fields], columns=names,
                          index=pd.Index([path for path, _ in fields], name="field"))
    return Comparison(table, config)


def _names(runs: list[Run]) -> list[str]:
    """The name of each run's directory, or its number."""
    names: list[str] = []
    for number, item in enumerate(runs):
        name = item.directory.name if item.directory is not None else f"run {number}"
        names.append(name if name not in names else f"{name} ({number})")
    return names


def _change(first: object, value: object) -> float | None:
    if not isinstance(first, (int, float)) or not isinstance(value, (int, float)) or first == 0:
        return None
    return 100 * (value - first) / abs(first)
