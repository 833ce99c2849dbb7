"""Recommendations: what to set for given models, devices, load and bounds."""
from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twinserve import _extras, _native
from twinserve.experiment import report, source_of

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = _extras.pandas()


@dataclasses.dataclass(frozen=True)
class Recommendation:
    """The answer to a request (docs/parameters.md).

    configurations  one row per configuration, the best first: rank, tied, the settings
                    (parameters.*), the objective with its 95 % interval (value.mean, value.low,
                    value.high), metrics at the load (metrics.KEY.mean, ...), command
    sensitivity     one row per setting of the first: path, elasticity, low, high, sentence
    pareto          the configurations with the least mean TTFT and TPOT at the load, in ms
    rejected        configurations that cannot run or break the bounds, with the reason
    document        everything, as `twinserve recommend --format json` prints it
    """
    configurations: pd.DataFrame
    sensitivity: pd.DataFrame
    pareto: pd.DataFrame
    rejected: pd.DataFrame
    document: dict[str, Any]

    @property
    def command(self) -> str:
        """The command line of the real server for the first configuration."""
        return self.document["configurations"][0]["command"]


def recommend(request: str | os.PathLike[str], *, jobs: int | None = None, exhaustive: bool = False,
              out: str | os.PathLike[str] | None = None,
              progress: Callable[[str, int, int], None] | None = None) -> Recommendation:
    """Finds what to set on a server, as `twinserve recommend` does, in this process.

    request     path of a request file (docs/parameters.md), or the text of one
    jobs        runs at a time; None: one per core. Results do not depend on it
    exhaustive  runs every configuration at full length, to check the search
    out         a folder for recommendation.json and an experiment per configuration; an interrupted
                search goes on from what it left there
    progress    as in run()

    Raises InputError, KeyboardInterrupt.
    """
    if jobs is not None and not 1 <= jobs <= 1024:
        raise _native.InputError(f"jobs: is {jobs}; allowed: 1 to 1024, or None")
    text, reports = _native.recommend(source_of(request), os.fspath(out) if out is not None else "",
                                      jobs or 0, exhaustive, progress)
    report(reports)
    document = json.loads(text)
    return Recommendation(*(pd.json_normalize(document[name]) for name in
                            ("configurations", "sensitivity", "pareto", "rejected")), document)
