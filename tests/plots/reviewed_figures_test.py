"""What a reviewer asks of figures: lines that end where the run or the axis does, one legend,
logarithmic axes."""
import json
import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

from figures_test import SCRIPTS, common_style, draw, draw_runs, draw_with  # noqa: E402, F401
from paper_figures_test import figure_of  # noqa: E402
from small_inputs import (RATE, THREE_STEPS, recommendation, write_run,  # noqa: E402
                          write_summary_csv)


# Steps at the edges of the time axis.

def many_steps(count, seconds):
    rows = [f"{i},{i * seconds},{(i + 1) * seconds},0,5,5" for i in range(count)]
    return "\n".join([THREE_STEPS.splitlines()[0], *rows]) + "\n"


@pytest.mark.parametrize("seconds", [0.5, 0.004])  # each step for itself; means of many
def test_a_line_that_the_axis_cuts_does_not_fall(tmp_path, seconds):
    run = write_run(tmp_path / "r", steps=many_steps(round(20 / seconds), seconds))
    tokens, sequences = draw_runs("batch_over_time", run, "--begin", "10", "--end", "12").axes
    assert set(sequences.get_lines()[0].get_ydata()) == {5}
    corners = tokens.collections[0].get_paths()[0].vertices
    assert corners[corners[:, 0] >= 12, 1].max() == 5


def test_a_run_that_ends_before_the_axis_falls_to_zero(tmp_path):
    runs = [write_run(tmp_path / str(count), steps=many_steps(count, 1)) for count in (2, 4)]
    figure = draw_runs("batch_over_time", *runs)
    assert [list(axes.get_lines()[0].get_ydata()) for axes in figure.axes[1::2]] == [
        [5, 5, 0], [5, 5, 5, 5, 5]]


# 400 short steps, then one as long as 100 of them, then nothing until the end of the axis.
def test_a_step_longer_than_a_mean_is_no_gap(tmp_path):
    text = many_steps(400, 0.01) + "400,4,5,0,7,7\n"
    run = write_run(tmp_path / "r", steps=text)
    line = draw_runs("batch_over_time", run, "--end", "6").axes[1].get_lines()[0]
    x, y = line.get_xdata(), line.get_ydata()
    assert set(y[(x >= 4.1) & (x < 4.95)]) == {7}
    assert set(y[x > 5.02]) == {0}


# Legends, axes, captions.

@pytest.mark.parametrize("script", SCRIPTS)
def test_a_figure_has_at_most_one_legend(tmp_path, script):
    figure = figure_of(script, tmp_path)
    assert len(figure.legends) + sum(axes.get_legend() is not None for axes in figure.axes) <= 1


def test_parameters_over_more_than_two_decades_have_a_logarithmic_axis(tmp_path):
    rows = [{RATE: rate, "mean_ttft_ms": 5} for rate in (0.1, 0.2, 15)]
    study = write_summary_csv(tmp_path / "s", rows)
    assert draw("latency_vs_rate", study, "--metrics", "mean_ttft_ms").axes[0].get_xscale() == "log"


def test_objectives_over_more_than_two_decades_have_a_logarithmic_axis(tmp_path):
    path = recommendation(tmp_path)
    answer = json.loads(path.read_text())
    answer["configurations"][0]["value"]["mean"] = 5000
    path.write_text(json.dumps(answer))
    axes, = draw_with("recommended_settings", "read_answers", path).axes
    assert axes.get_yscale() == "log"
