"""twinserve.metric_interval and twinserve.paired_difference, and what figures make of them."""
import math
import pathlib
import subprocess
import sys

import pandas as pd
import pytest
import twinserve

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_an_interval_is_students_where_values_are_not_skewed():
    # Mean 3, s^2 = 2.5, t with 4 degrees of freedom: 2.776445.
    found = twinserve.metric_interval("mean_tpot_ms", {"mean_tpot_ms": [1, 2, 3, 4, 5]})
    assert found["n"] == 5 and found["mean"] == 3 and found["runs_wanted"] == 0
    assert found["mean_high"] == pytest.approx(3 + 2.776445 * math.sqrt(2.5 / 5), abs=1e-5)


def test_waiting_times_of_few_runs_have_no_interval():
    runs = pd.DataFrame({"mean_ttft_ms": [10.0, 20, 30], "max_running": [8, 8, 8],
                         "saturated": "no"})
    found = twinserve.metric_interval("mean_ttft_ms", runs)
    assert found["mean"] == 20 and found["runs_wanted"] == 20
    assert math.isnan(found["mean_low"])


def test_a_difference_is_paired():
    found = twinserve.paired_difference("mean_tpot_ms", {"mean_tpot_ms": [11, 12, 13.2]},
                                        {"mean_tpot_ms": [10, 11, 12]})
    assert found["difference"] == pytest.approx(3.2 / 3)
    assert found["ratio"] == pytest.approx(36.2 / 33)
    assert found["p_value"] < 0.01 and found["correlation"] > 0.99


def test_runs_without_the_metric_are_refused():
    with pytest.raises(twinserve.InputError, match="the runs have no number of it"):
        twinserve.metric_interval("mean_ttft_ms", {"mean_tpot_ms": [1, 2]})
    with pytest.raises(twinserve.InputError, match="different numbers of runs"):
        twinserve.paired_difference("mean_tpot_ms", {"mean_tpot_ms": [1, 2]},
                                    {"mean_tpot_ms": [1]})


def test_runs_of_several_seeds_are_drawn_with_their_interval():
    script = ("import pandas as pd, points\n"
              "rows = pd.DataFrame({'rate': [1.0] * 3, 'mean_tpot_ms': [10.0, 20, 30]})\n"
              "print(points.summarised(rows, ['rate'])['mean_tpot_ms_high'][0])")
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT / "plots", capture_output=True,
                          text=True, check=True)
    # Student's t with two degrees of freedom: 4.3027 * 10 / sqrt(3).
    assert float(done.stdout) == pytest.approx(20 + 24.841, abs=1e-3)


def test_intervals_hold_what_they_promise(tmp_path):
    program = [sys.executable, ROOT / "checks/statistics/run", "--short", "--out", tmp_path]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # The same check of Student's t alone.
    done = subprocess.run([*program, "--plain"], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "of the intervals of p90_ttft_ms hold the truth" in done.stdout
