"""LLM serving, simulated and executed by the same scheduler.

    import twinserve

    run = twinserve.run("experiments/quickstart/vllm_v1.textproto", {"workload.requests": 500})
    run.summary["mean_ttft_ms"]     # the keys of summary.json
    run.requests                    # requests.csv as a pandas DataFrame, units in the names

docs/python.md describes the package, docs/metrics.md every key and column, and
docs/configuration.md every field of an experiment.
"""
from twinserve._native import InputError, InvariantViolation, PolicyError, Request, Step
from twinserve._native import version as __version__
from twinserve.comparison import Comparison, compare
from twinserve.experiment import Replay, Run, RunWarning, load, replay, resolve, run
from twinserve.policy import Policy
from twinserve.prediction import predict_operations, predict_steps
from twinserve.recommendation import Recommendation, recommend
from twinserve.study import capacity, sweep
from twinserve.traces import read_trace, write_trace

for _type in (InputError, InvariantViolation, PolicyError, Request, Step):
    _type.__module__ = __name__
InputError.__doc__ = "Bad input. One line: file or field, what is wrong, what is allowed."
PolicyError.__doc__ = "A policy failed; the exception in its code is the cause (__cause__)."
InvariantViolation.__doc__ = "A policy broke an invariant of the engine (docs/INVARIANTS.md)."

__all__ = [
    "Comparison", "InputError", "InvariantViolation", "Policy", "PolicyError", "Recommendation",
    "Replay", "Request", "Run", "RunWarning", "Step", "capacity", "compare", "load", "predict_operations",
    "predict_steps", "read_trace", "recommend", "replay", "resolve", "run", "sweep", "write_trace",
]
