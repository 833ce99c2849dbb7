"""What a reviewer asks of figures: names and colours that hold across figures, lines that end where
the run or the axis does, one legend, logarithmic axes."""
import json
import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

from figures_test import (SCRIPTS, common_style, draw, draw_runs,  # noqa: E402, F401
                          draw_with, labelled_lines, legend)
from paper_figures_test import figure_of  # noqa: E402
import style  # noqa: E402
from policies import POLICIES, policy_named  # noqa: E402
from small_inputs import (RATE, THREE_STEPS, TWO_TENANTS, recommendation,  # noqa: E402
                          write_run, write_summary_csv)

SEQS = "policy.vllm_v1.max_num_seqs"


# Names and settings in legends.

def test_names_of_experiments_tell_runs_of_one_policy_apart(tmp_path):
    runs = [write_run(tmp_path / folder, policy=policy, requests=TWO_TENANTS, name=name)
            for folder, policy, name in (("a", "vllm_v1", '"small"'), ("b", "vllm_v1", '"large"'),
                                         ("c", "orca", '"orca_burst"'))]
    assert legend(draw_runs("latency_cdf", *runs)) == ["small", "large", "Orca"]


def test_equal_names_tell_no_runs_apart(tmp_path):
    runs = [write_run(tmp_path / folder, requests=TWO_TENANTS, name='"one"') for folder in "ab"]
    assert legend(draw_runs("latency_cdf", *runs)) == ["a", "b"]


def test_a_name_that_is_a_policy_is_written_as_one(tmp_path):
    runs = [write_run(tmp_path / name, policy="vllm_v1", requests=TWO_TENANTS, name=f'"{name}"')
            for name in ("vllm_v1", "batches of 8")]
    assert legend(draw_runs("latency_cdf", *runs)) == ["vLLM V1", "batches of 8"]


# The text format writes letters outside of ASCII as bytes in octal.
def test_names_are_read_as_they_were_written(tmp_path):
    runs = [write_run(tmp_path / folder, requests=TWO_TENANTS, name=name)
            for folder, name in (("a", r'"gro\303\237e \"Stapel\"\\"'), ("b", '"n"'))]
    assert legend(draw_runs("latency_cdf", *runs)) == ['gro\u00dfe "Stapel"\\', "n"]


def three_systems(folder, names=(None, None, None)):
    """Orca, and vLLM V1 with two limits, at two rates each. The largest step, which nobody set,
    differs between all of them."""
    systems = (("orca", 8, 8192), ("vllm_v1", 8, 2048), ("vllm_v1", 16, 4096))
    return [[write_run(folder / f"{policy}_{limit}_{rate}", policy=policy, rate=rate, name=name,
                       settings=f"max_num_seqs: {limit}",
                       memory=f"any\n    max_step_tokens: {tokens}") for rate in (1.0, 2.0)]
            for (policy, limit, tokens), name in zip(systems, names)]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_legends_have_settings_that_somebody_set_and_no_empty_ones(tmp_path, order):
    systems = three_systems(tmp_path)
    shown = legend(draw("goodput_vs_rate", *(run for at in order for run in systems[at])))
    expected = ["Orca", "vLLM V1, max_num_seqs = 8", "vLLM V1, max_num_seqs = 16"]
    assert shown == [expected[at] for at in order]


def test_names_of_experiments_stand_for_their_settings(tmp_path):
    systems = three_systems(tmp_path, (None, '"small"', '"large"'))
    shown = legend(draw("goodput_vs_rate", *(run for runs in systems for run in runs)))
    assert shown == ["Orca", "small", "large"]


def test_a_setting_that_a_line_of_a_study_lacks_is_not_named(tmp_path):
    rows = [{"base": base, SEQS: limit, RATE: rate, "mean_ttft_ms": 5}
            for base, limit in (("orca.textproto", ""), ("vllm_v1.textproto", 8),
                                ("vllm_v1.textproto", 16)) for rate in (1, 2)]
    study = write_summary_csv(tmp_path / "s", rows, ("base", SEQS, RATE))
    assert legend(draw("latency_vs_rate", study, "--metrics", "mean_ttft_ms")) == [
        "Orca", "vLLM V1, max_num_seqs = 8", "vLLM V1, max_num_seqs = 16"]


# Colours.

def colours(axes):
    return {label: line.get_color() for label, line in labelled_lines(axes).items()}


def test_a_policy_has_one_colour_in_all_figures(tmp_path):
    systems = three_systems(tmp_path)
    runs = [run for system in systems for run in system]
    orca, vllm = POLICIES["orca"].colour, POLICIES["vllm_v1"].colour
    assert list(colours(draw("goodput_vs_rate", *runs).axes[0]).values()) == [orca, vllm, vllm]
    chosen = [system[0] for system in systems]
    for run in chosen:
        (run / "requests.csv").write_text(TWO_TENANTS)
    assert list(colours(draw_runs("latency_cdf", *chosen).axes[0]).values()) == [orca, vllm, vllm]
    gap = draw_runs("fairness", *chosen).axes[-1]
    assert list(colours(gap).values()) == [orca, vllm, vllm]
    rows = [{"base": base, SEQS: limit, RATE: rate, "mean_ttft_ms": 5}
            for base in ("orca.textproto", "vllm_v1.textproto") for limit in (8, 16)
            for rate in (1, 2)]
    study = write_summary_csv(tmp_path / "s", rows, ("base", SEQS, RATE))
    axes = draw("latency_vs_rate", study, "--metrics", "mean_ttft_ms").axes[0]
    assert list(colours(axes).values()) == [orca, orca, vllm, vllm]


def test_lines_of_one_policy_differ_without_colour():
    looks = style.looks_for(["vllm_v1"] * 20 + ["orca", "shortest", "vllm_v1"])
    assert len({(look.marker, look.dash) for look in looks}) == 23
    assert {look.colour for look in looks[:20]} == {POLICIES["vllm_v1"].colour}
    assert len({look.dash for look in looks[:5]}) == 5
    assert looks[0].marker == POLICIES["vllm_v1"].marker


def test_lines_without_a_policy_have_no_colour_of_one_beside_them():
    looks = style.looks_for(["vllm_v1", None, None])
    assert POLICIES["vllm_v1"].colour not in [look.colour for look in looks[1:]]


def test_a_policy_of_the_callers_own_has_one_colour_whatever_stands_beside_it():
    alone, = style.looks_for(["shortest"])
    *_, beside = style.looks_for(["orca", "fair", "shortest"])
    assert alone.colour == beside.colour == policy_named("shortest").colour
    assert alone.colour not in {policy.colour for policy in POLICIES.values()}


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


def test_long_names_stay_inside_of_the_figure(tmp_path):
    names = [letter * 90 for letter in "ab"] + ["c d " * 30]
    runs = [write_run(tmp_path / str(i), requests=TWO_TENANTS, name=f'"{name}"')
            for i, name in enumerate(names)]
    figure = draw_runs("latency_cdf", *runs, "--width", "1")
    extent = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= extent.x0 and extent.x1 <= figure.bbox.x1
    assert [text.replace("\n", "") for text in legend(figure)][:2] == names[:2]


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
