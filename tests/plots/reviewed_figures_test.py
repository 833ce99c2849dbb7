"""What a reviewer asks of figures: names and colours that hold across figures, honest spreads over
seeds, undecided points, one legend, bounded captions."""
import ast
import json
import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

from figures_test import (PLOTS, SCRIPTS, common_style, draw, draw_runs,  # noqa: E402, F401
                          draw_with, labelled_lines, legend, run_script)
from paper_figures_test import figure_of  # noqa: E402
import caption  # noqa: E402
import lines  # noqa: E402
import style  # noqa: E402
from environment import np, plt  # noqa: E402
from policies import POLICIES, policy_named  # noqa: E402
from small_inputs import (RATE, THREE_STEPS, TWO_TENANTS, recommendation,  # noqa: E402
                          two_policies, write_measured, write_results_csv, write_run,
                          write_summary_csv)

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


# Spreads over seeds.

def test_intervals_on_a_logarithmic_axis_are_as_wide_downwards_as_upwards(tmp_path):
    rows = [{RATE: rate, "mean_ttft_ms": mean, "mean_ttft_ms_low": low, "mean_ttft_ms_high": high}
            for rate, mean, low, high in ((1, 1, 0.5, 2), (2, 100, 0.001, 400),
                                          (3, 900, 800, 1000))]
    axes, = draw("latency_vs_rate", write_summary_csv(tmp_path / "s", rows), "--metrics",
                 "mean_ttft_ms").axes
    assert axes.get_yscale() == "log"
    ends = {(round(x), round(y, 6)) for x, y in axes.collections[0].get_paths()[0].vertices}
    assert {(1, 0.5), (1, 2), (2, 25), (2, 400), (3, 810), (3, 1000)} <= ends
    assert axes.get_ylim()[0] > 0.2


def few_seeds(folder, metric="mean_ttft_ms"):
    """A point of three seeds and one of five, each with an interval; a run of the first failed."""
    rows = [{RATE: rate, metric: 20, f"{metric}_low": 5, f"{metric}_high": 35, "n": n}
            for rate, n in ((1, 3), (2, 5))]
    study = write_summary_csv(folder, rows)
    write_results_csv(study, [[(10, ""), (20, ""), (30, ""), (999, "failed")],
                              [(value, "") for value in (18, 19, 20, 21, 22)]], metric)
    return study


def whiskers(axes):
    """Lines from end to end of bars of errors."""
    return [segment.tolist() for lines_ in axes.collections
            if hasattr(lines_, "get_segments") for segment in lines_.get_segments()]


def test_few_seeds_have_whiskers_from_the_least_to_the_largest_value(tmp_path):
    figure = draw("latency_vs_rate", few_seeds(tmp_path / "s"), "--metrics", "mean_ttft_ms")
    drawn = whiskers(figure.axes[0])
    assert [[1, 10], [1, 30]] in drawn
    assert [[2, 5], [2, 35]] in drawn  # the band of a point alone
    assert len(drawn) == 2
    assert figure.remarks == [
        "Bands: 95 % intervals of the mean over seeds.",
        "Whiskers: from the least to the largest value at points with fewer than 5 seeds."]


def test_runs_of_few_seeds_have_whiskers_too(tmp_path):
    runs = [write_run(tmp_path / str(seed), seed=seed, summary={"good_rate": value})
            for seed, value in ((1, 0.5), (2, 0.6), (3, 0.8))]
    figure = draw("goodput_vs_rate", *runs)
    assert [[1, 0.5], [1, 0.8]] in whiskers(figure.axes[0])
    assert any(text.endswith("with fewer than 5 seeds.") for text in figure.remarks)


def test_bars_of_few_seeds_have_the_same_whiskers(tmp_path):
    figure = draw("metric_vs_parameter", few_seeds(tmp_path / "s", "good_rate"), "--y", "good_rate",
                  "--bars")
    assert {tuple(y for _, y in ends) for ends in whiskers(figure.axes[0])} >= {(10, 30), (5, 35)}
    assert figure.remarks == ["Whiskers: 95 % intervals of the mean over seeds, or from the least "
                              "to the largest value at points with fewer than 5 seeds."]


def test_points_without_an_interval_have_whiskers_and_the_caption_says_why(tmp_path):
    study = write_summary_csv(tmp_path / "s", [{RATE: 1, "mean_ttft_ms": 20, "mean_ttft_ms_low": "",
                                                "mean_ttft_ms_high": "", "n": 6}])
    write_results_csv(study, [[(value, "") for value in (10, 10, 10, 10, 10, 70)]], "mean_ttft_ms")
    figure = draw("latency_vs_rate", study, "--metrics", "mean_ttft_ms")
    assert whiskers(figure.axes[0]) == [[[1, 10], [1, 70]]]
    assert figure.remarks == ["Whiskers: from the least to the largest value at points with too "
                              "few seeds for an interval."]


def test_few_seeds_without_their_values_have_no_spread_and_the_caption_says_why(tmp_path):
    study = few_seeds(tmp_path / "s")
    (study / "results.csv").unlink()
    figure = draw("latency_vs_rate", study, "--metrics", "mean_ttft_ms", "--where", f"{RATE}=1")
    assert not whiskers(figure.axes[0])
    assert figure.remarks == ["No whiskers: few seeds, and no results.csv with the value of each."]


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


# Saturated or not.

def verdict_study(folder):
    rows = [{RATE: rate, "p99_ttft_ms": 10 * rate, "p99_tpot_ms": 50 - rate, "saturated": verdict}
            for rate, verdict in enumerate(["no", "undecided", "undecided", "yes"], 1)]
    return write_summary_csv(folder, rows)


def half_filled(axes):
    return sorted(x for line in axes.get_lines() if line.get_fillstyle() == "left"
                  for x in line.get_xdata())


def test_undecided_points_are_half_filled_and_counted_in_the_caption(tmp_path):
    figure = draw("latency_vs_rate", verdict_study(tmp_path / "s"), "--metrics",
                  "p99_ttft_ms,p99_tpot_ms")
    for axes in figure.axes:
        assert half_filled(axes) == [2, 3]
    assert legend(figure) == ["saturated", "undecided"]
    assert figure.remarks[0] == ("Points: 1 saturated: more arrives than is served (hollow), 2 "
                                 "undecided: runs too short to tell (half filled).")
    figure = draw("ttft_tpot_pareto", verdict_study(tmp_path / "p"))
    assert half_filled(figure.axes[0]) == [20, 30]
    assert "undecided" in legend(figure)
    assert "2 undecided: runs too short" in figure.remarks[0]


def test_undecided_bars_are_pale(tmp_path):
    figure = draw("metric_vs_parameter", verdict_study(tmp_path / "s"), "--y", "p99_tpot_ms",
                  "--bars")
    faces = [bar.get_facecolor() for bar in figure.axes[0].patches]
    assert [face[3] for face in faces] == [1, style.FAINT, style.FAINT, 1]
    assert faces[3][:3] == (1, 1, 1) != faces[0][:3]
    assert "(white), 2 undecided: runs too short to tell (pale)" in figure.remarks[0]
    runs = [write_run(tmp_path / verdict, summary={"saturated": verdict, "good_rate": 1})
            for verdict in ("no", "undecided")]
    figure = draw_runs("policy_comparison", *runs)
    assert [bar.get_facecolor()[3] for bar in figure.axes[5].patches] == [1, style.FAINT]
    assert figure.remarks == ["Runs: 1 undecided: runs too short to tell (pale)."]


def test_a_measured_run_is_not_undecided(tmp_path):
    measured = write_measured(tmp_path / "measured", summary={"p99_tpot_ms": 1, "p99_ttft_ms": 1})
    figure = draw("ttft_tpot_pareto", measured)
    assert not half_filled(figure.axes[0]) and not hasattr(figure, "remarks")


def test_markers_at_the_edges_are_whole(tmp_path):
    rows = [{RATE: rate, "good_rate": 0, "saturated": verdict}
            for rate, verdict in ((1, "no"), (3, "undecided"))]
    axes, = draw("metric_vs_parameter", write_summary_csv(tmp_path / "s", rows), "--y",
                 "good_rate").axes
    assert axes.get_xlim() == (0, pytest.approx(3.18))
    assert not any(line.get_clip_on() for line in axes.get_lines() if line.get_marker() != "None")


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


def described_run(folder, seed):
    run = write_run(folder, requests=TWO_TENANTS, summary={"completed": 100_000 + seed})
    (run / "provenance.json").write_text(json.dumps(
        {"version": "0.1.0", "commit": "abc123def456", "dirty": True, "seed": seed}))
    return run


@pytest.mark.parametrize("script", SCRIPTS)
def test_captions_are_bounded_and_keep_whole_sentences(tmp_path, script):
    runs = [described_run(tmp_path / f"{'x' * 200}{seed}", seed) for seed in range(40)]
    figure = plt.figure()
    style.remark_verdicts(figure, ["yes"] * 100 + ["undecided"] * 100, "points")
    table = {"y": 1.0, "low": [0.5, np.nan], "high": [2, np.nan], "least": 1.0, "largest": 1.0,
             "runs": 9, "verdict": ""}
    lines.remark_points(figure, [lines.Line("", None, lines.pd.DataFrame(table))])
    assert len(figure.remarks) == 3
    description = ast.get_docstring(ast.parse((PLOTS / f"{script}.py").read_text()))
    words = caption.caption_words(description, figure.remarks, runs)
    assert len(words) <= caption.CAPTION_MAX
    assert words.endswith("40 runs, n = 100000 to 100039 completed requests, seeds 0 to 39, "
                          "twinserve 0.1.0 at commit abc123def456 with changes.")
    assert all(remark in words for remark in figure.remarks)
    sentences = " ".join(description.split())
    assert sentences.startswith(words[:words.index(figure.remarks[0])].strip())
    assert "Needs " not in words


def test_remarks_stand_in_the_captions(tmp_path):
    study = verdict_study(tmp_path / "s")
    done = run_script("latency_vs_rate", study, "--metrics", "p99_ttft_ms", "--out", tmp_path,
                      "--latex")
    assert (done.returncode, done.stderr) == (0, "")
    for suffix in ("txt", "tex"):
        assert "2 undecided: runs too short" in (tmp_path / f"latency_vs_rate.{suffix}").read_text()


def test_many_studies_are_summed_up(tmp_path):
    studies = [two_policies(tmp_path / name) for name in "abc"]
    for number, study in enumerate(studies):
        (study / "study.json").write_text(json.dumps(
            {"version": "0.1.0", "commit": f"abc{number}", "seeds": [1, 2 + number]}))
    assert caption.summary_of(studies) == "3 studies, seeds 1 to 4, 3 builds."
