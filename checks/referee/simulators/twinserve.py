"""This program, with its shipped profiles: checks/fidelity simulates every request of the run from
the recorded configuration, send times and lengths.

Command: checks/referee/run --simulator twinserve [--binary FILE]

Intervals hold one more of 36 draws of the cost model's errors with 90 %, as checks/fidelity has them.
Runs that terms were fitted to are in checks/fidelity/split.textproto.
"""
import math
import pathlib
import types

import settings
from prediction import METRICS, NotCovered, NotInstalled, Prediction
from simulated_runs import part_of, prediction_interval, read_split, simulate

DRAWS = 36


def identity():
    """The program's file: another build may predict otherwise."""
    found = pathlib.Path(settings.binary)
    return f"{found.stat().st_size} {found.stat().st_mtime_ns}" if found.is_file() else ""


def means(run, label, seed=None):
    """{metric: ms} of one simulation."""
    if not pathlib.Path(settings.binary).is_file():
        raise NotInstalled(f"./quickstart builds {settings.binary}")
    options = types.SimpleNamespace(out=pathlib.Path(settings.work), cost="profile {}",
                                    binary=settings.binary)
    values = simulate(options, run, label, {}, seed)
    if any(math.isnan(values.get(f"{metric}_mean", math.nan)) for metric in METRICS):
        raise NotCovered("no request with several tokens completed")
    return {metric: 1e3 * values[f"{metric}_mean"] for metric in METRICS}


def predict(run):
    split = read_split()
    fitted = tuple(metric for metric in METRICS
                   if part_of(run, f"{metric}_mean", split) == "fit")
    return Prediction(**{f"{metric}_ms": value for metric, value in means(run, "mean").items()},
                      fitted=fitted)


def intervals(run):
    draws = [means(run, "draw", seed) for seed in range(1, DRAWS + 1)]
    return {metric: prediction_interval([draw[metric] for draw in draws]) for metric in METRICS}
