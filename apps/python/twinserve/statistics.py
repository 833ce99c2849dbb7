"""Intervals of the means of runs, as summary.csv and differences.csv of a study have them."""
from __future__ import annotations

from collections.abc import Iterable, Mapping

import twinserve._native as _native

Runs = Mapping[str, Iterable[float]]


def metric_interval(metric: str, runs: Runs, confidence: float = 0.95) -> dict[str, float]:
    """The mean of a metric over runs, and its interval.

    metric      a key of summary.json
    runs        values of the runs by metric, such as the rows of a point of sweep(): the metric's
                own, and those that tell whether there are enough of them (max_running,
                max_kv_used_share, mean_ttft_ms, and the next higher quantile)
    confidence  of the interval

    Returns n, mean, mean_low, mean_high (NaN if the runs are too few) and runs_wanted (0 if there
    are enough). docs/studies.md says how. Raises InputError.
    """
    return _native.metric_interval(metric, _numbers(runs), confidence)


def paired_difference(metric: str, runs: Runs, baseline: Runs,
                      confidence: float = 0.95) -> dict[str, float]:
    """The difference of a metric between runs and the runs of a baseline with the same seeds.

    Returns n, difference, ratio (of the means) and geometric_ratio (of the pairs), each with its
    _low and _high, correlation, p_value and runs_wanted; parameters and NaN as in
    metric_interval(). Raises InputError.
    """
    return _native.paired_difference(metric, _numbers(runs), _numbers(baseline), confidence)


def _numbers(runs: Runs) -> dict[str, list[float]]:
    """Without values that are no number: NaN is not equal to itself."""
    numbers = {}
    for name in runs:
        try:
            numbers[name] = [value for value in map(float, runs[name]) if value == value]
        except (TypeError, ValueError):
            continue  # a column of words
    return numbers
