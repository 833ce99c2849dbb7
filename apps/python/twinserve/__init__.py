"""LLM serving, simulated and executed by the same scheduler.

    import twinserve

    run = twinserve.run("quickstart/vllm_v1", {"workload.requests": 500})
    run.summary["mean_ttft_ms"]     # the keys of summary.json
    run.requests                    # requests.csv as a pandas DataFrame, units in the names

docs/python.md describes the package, docs/metrics.md every key and column, and
docs/configuration.md every field of an experiment.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from twinserve import _native
from twinserve._extras import DATA
from twinserve._native import InputError, InvariantViolation, PolicyError, Request, Step
from twinserve._native import version as __version__

if TYPE_CHECKING:
    from twinserve.comparison import Comparison, compare
    from twinserve.experiment import Replay, Run, RunWarning, load, replay, resolve, run
    from twinserve.policy import Policy
    from twinserve.prediction import predict_operations, predict_serving, predict_steps
    from twinserve.recommendation import Recommendation, recommend
    from twinserve.statistics import metric_interval, paired_difference
    from twinserve.study import capacity, sweep
    from twinserve.traces import read_trace, write_trace

_native.set_data_folder(DATA)
for _type in (InputError, InvariantViolation, PolicyError, Request, Step):
    _type.__module__ = __name__
InputError.__doc__ = "Bad input. One line: file or field, what is wrong, what is allowed."
PolicyError.__doc__ = "A policy failed; the exception in its code is the cause (__cause__)."
InvariantViolation.__doc__ = "A policy broke an invariant of the engine (docs/INVARIANTS.md)."

__all__ = [
    "Comparison", "InputError", "InvariantViolation", "Policy", "PolicyError", "Recommendation",
    "Replay", "Request", "Run", "RunWarning", "Step", "capacity", "compare", "load",
    "metric_interval", "paired_difference", "predict_operations", "predict_serving",
    "predict_steps", "read_trace", "recommend", "replay", "resolve", "run", "sweep", "write_trace",
]

# Loaded on use: pandas, which tables need, takes half a second.
_NAMES = {
    "cluster": (),
    "comparison": ("Comparison", "compare"),
    "experiment": ("Replay", "Run", "RunWarning", "load", "replay", "resolve", "run"),
    "policy": ("Policy",),
    "prediction": ("predict_operations", "predict_serving", "predict_steps"),
    "recommendation": ("Recommendation", "recommend"),
    "statistics": ("metric_interval", "paired_difference"),
    "study": ("capacity", "sweep"),
    "traces": ("read_trace", "write_trace"),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_MODULE_OF})
