"""Figures for papers: readable in grey, ticks, bars, frontiers, style files, captions."""
import argparse
import itertools
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

from figures_test import (SCRIPTS, common_style, draw, draw_runs, draw_with, labelled_lines,  # noqa: E402, F401
                          legend, run_script)
import caption  # noqa: E402
import points  # noqa: E402
import style  # noqa: E402
from environment import matplotlib, np, plt  # noqa: E402
from run_data import PlotError  # noqa: E402
from small_inputs import (RATE, THREE_PARTS, THREE_STEPS, TWO_TENANTS, capacities,  # noqa: E402
                          many_lines, prediction_errors, recommendation, series, two_policies,
                          validation, write_run, write_summary_csv)


def two_runs(folder):
    """Runs of one policy, which share its colour, and of another one."""
    more = {"requests": TWO_TENANTS, "steps": THREE_STEPS, "parts": THREE_PARTS,
            "gaps": [[0.02, 0.02, 0.2], [0.02]]}
    return [series(write_run(folder / name, policy=policy, **more))
            for name, policy in (("a", "orca"), ("b", "orca"), ("c", "vllm_v1"))]


def figure_of(script, folder):
    """Each figure of plots/ from small inputs with several series."""
    if script == "predicted_vs_measured":
        for name in ("a", "b"):
            write_run(folder / name, requests=TWO_TENANTS)
        return draw_with(script, "read", validation(folder / "v", ["a", "b"]))
    if script == "prediction_errors":
        return draw_with(script, "read", prediction_errors(folder))
    if script == "recommended_settings":
        return draw_with(script, "read_answers", recommendation(folder))
    if script == "usual_advice":
        return draw_with(script, "read_comparisons", capacities(folder))
    if script in {"latency_vs_rate", "attainment_vs_rate", "goodput_vs_rate",
                  "metric_vs_parameter", "ttft_tpot_pareto", "user_vs_gpu_throughput"}:
        study = two_policies(folder / "s")
        return draw(script, study, *(["--gpus", "1"] if script.startswith("user") else []))
    return draw_runs(script, *two_runs(folder))


def grey(colour):
    """Luminance of Rec. 709, 0 (black) to 1: what a black and white printer leaves of a colour."""
    red, green, blue = matplotlib.colors.to_rgb(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def line_look(line):
    return (line.get_linestyle(), str(line._unscaled_dash_pattern), line.get_marker(),
            line.get_markerfacecolor() in ("white", "none"))


def area_look(artist):
    return artist.get_hatch(), round(grey(artist.get_facecolor()[:3] if artist.get_alpha() is None
                                          else np.array(artist.get_facecolor()[:3])
                                          * artist.get_alpha() + 1 - artist.get_alpha()), 3)


def legend_entries(figure):
    """Artists of all legends by kind, with their labels."""
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    for one in filter(None, legends):
        yield [(handle, text.get_text()) for handle, text in zip(one.legend_handles,
                                                                 one.get_texts())]


@pytest.mark.parametrize("script", SCRIPTS)
def test_series_are_told_apart_without_colour(tmp_path, script):
    entries = list(legend_entries(figure_of(script, tmp_path)))
    if script not in {"usual_advice", "policy_comparison"}:  # rows with names
        assert entries
    for (one, name), (other, other_name) in itertools.chain.from_iterable(
            itertools.combinations(group, 2) for group in entries):
        if isinstance(one, plt.Line2D) and isinstance(other, plt.Line2D):
            assert line_look(one) != line_look(other), (name, other_name)
        elif isinstance(one, matplotlib.patches.Patch) and isinstance(other,
                                                                      matplotlib.patches.Patch):
            (hatch, shade), (other_hatch, other_shade) = area_look(one), area_look(other)
            assert hatch != other_hatch or abs(shade - other_shade) > 0.1, (name, other_name)


@pytest.mark.parametrize("script", SCRIPTS)
def test_text_is_legible_and_ticks_are_few_and_short(tmp_path, script):
    figure = figure_of(script, tmp_path)
    sizes = [text.get_fontsize() for text in figure.findobj(matplotlib.text.Text)
             if text.get_text() and text.get_visible()]
    assert min(sizes) >= 6
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_locator(), matplotlib.ticker.FixedLocator):
                continue  # names of rows and settings
            low, high = sorted(axis.get_view_interval())
            labels = [tick.label1.get_text() for tick in axis.get_major_ticks()
                      if low <= tick.get_loc() <= high]
            assert len(labels) <= 7
            assert all(len(label) <= 4 for label in labels), labels


@pytest.mark.parametrize("script", ["fairness", "latency_vs_rate", "predicted_vs_measured"])
def test_labels_of_a_panel_keep_off_the_panel_before_it(tmp_path, script):
    figure = figure_of(script, tmp_path)
    figure.set_figwidth(7)
    figure.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    rows = [(one, other) for one, other in itertools.pairwise(boxes) if other.x0 > one.x0]
    assert rows
    for one, other in rows:
        assert (other.x0 - one.x1) / figure.dpi * 72 > 10  # points


def test_forty_lines_differ_in_marker_or_dash(tmp_path):
    axes = draw("latency_vs_rate", many_lines(tmp_path / "s", 40), "--metrics",
                "mean_ttft_ms").axes[0]
    lines = labelled_lines(axes).values()
    assert len({line_look(line) for line in lines}) == 40


def bars_study(folder, values):
    rows = [{"base": f"{policy}.textproto", RATE: rate, "mean_tpot_ms": value,
             "mean_tpot_ms_low": 0.9 * value, "mean_tpot_ms_high": 1.2 * value,
             "saturated": "yes" if value == 30 else "no"}
            for (policy, rate), value in zip(itertools.product(("orca", "vllm_v1"), (1, 2)),
                                             values)]
    return write_summary_csv(folder, rows, ("base", RATE))


def test_bars_stand_in_groups_with_intervals_and_saturated_ones_are_hollow(tmp_path):
    axes = draw("metric_vs_parameter", bars_study(tmp_path / "s", (10, 20, 5, 30)), "--x", RATE,
                "--y", "mean_tpot_ms", "--bars").axes[0]
    bars = [(round(bar.get_x() + bar.get_width() / 2, 6), bar.get_height())
            for bar in axes.patches]
    assert bars == [(-0.2, 10), (0.8, 20), (0.2, 5), (1.2, 30)]
    assert [bar.get_facecolor()[:3] == (1, 1, 1) for bar in axes.patches] == [
        False, False, False, True]
    ends = [segment[:, 1].tolist() for lines in axes.collections
            for segment in lines.get_segments()]
    assert [9, 12] in ends and [27, 36] in ends
    assert axes.get_ylim()[0] == 0
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2"]


def test_groups_may_have_names(tmp_path):
    axes = draw("metric_vs_parameter", bars_study(tmp_path / "s", (10, 20, 5, 30)), "--x", "base",
                "--y", "mean_tpot_ms", "--bars").axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["Orca", "vLLM V1"]


def test_a_logarithmic_axis_has_points_and_no_bars(tmp_path):
    axes = draw("metric_vs_parameter", bars_study(tmp_path / "s", (1, 20, 5, 300)), "--x", RATE,
                "--y", "mean_tpot_ms", "--bars").axes[0]
    assert axes.get_yscale() == "log"
    assert not axes.patches
    points_drawn = [line for line in axes.get_lines() if line.get_marker() != "_"]  # no ends
    assert sorted(y for line in points_drawn for y in line.get_ydata()) == [1, 5, 20, 300]


# Throughput from 1 to 1000: a rate begins at 0.
def test_rates_and_shares_begin_at_zero(tmp_path):
    rows = [{RATE: rate, "output_throughput": value} for rate, value in ((1, 1), (2, 1000))]
    axes, = draw("metric_vs_parameter", write_summary_csv(tmp_path / "s", rows), "--y",
                 "output_throughput").axes
    assert (axes.get_yscale(), axes.get_ylim()[0]) == ("linear", 0)


def test_dominated_points_are_faint_and_an_arrow_says_what_is_better(tmp_path):
    rows = [{RATE: 1, "policy.sarathi.chunk_size": chunk, "p99_ttft_ms": ttft, "p99_tpot_ms": tpot}
            for chunk, ttft, tpot in [(64, 300, 10), (128, 200, 20), (256, 250, 30), (512, 100, ""),
                                      (1024, 100, 40)]]
    axes = draw("ttft_tpot_pareto", write_summary_csv(
        tmp_path / "s", rows, ("policy.sarathi.chunk_size", RATE))).axes[0]
    faint = [tuple(xy) for line in axes.get_lines() if line.get_alpha() == style.FAINT
             and line.get_marker() != "None" for xy in line.get_xydata()]
    assert faint == [(250, 30)]
    assert list(labelled_lines(axes)["frontier"].get_xdata())[1:-1] == [100, 200, 300]
    assert axes.get_title(loc="left") == "better \u2199"


def test_three_values_of_one_setting_share_a_title(tmp_path):
    figure = draw("latency_vs_rate", many_lines(tmp_path / "s", 3), "--metrics", "mean_ttft_ms")
    assert figure.legends[0].get_title().get_text() == "chunk_size"
    assert legend(figure) == ["64", "128", "192"]


def test_numbers_on_axes_are_short():
    assert [style.count_text(value) for value in (0, 0.25, 500, 20_000, 3e6, 0.001, 1e-5)] == [
        "0", "0.25", "500", "20k", "3M", "10\u207b\u00b3", "10\u207b\u2075"]
    assert [style.size_text(value) for value in (512, 16384, 10_000)] == ["512", "16k", "10k"]


def test_a_style_file_changes_settings_palette_and_policies(tmp_path, monkeypatch):
    monkeypatch.setattr(style, "COLOURS", list(style.COLOURS))
    monkeypatch.setitem(style.POLICIES, "orca", style.POLICIES["orca"])  # restores it
    file = tmp_path / "own.style"
    file.write_text("# mine\nfont.family: serif\nxtick.labelsize: 6\npalette: 112233, red\n"
                    "policy.orca: 445566\n")
    style.use_style(file)
    assert plt.rcParams["font.family"][0] == "serif"  # then installed fonts for other scripts
    assert plt.rcParams["xtick.labelsize"] == 6
    assert style.COLOURS == ["#112233", "red"]
    assert style.looks_for(["orca"])[0].colour == "#445566"


def test_the_printed_style_is_a_style_file_of_the_common_style(tmp_path):
    before = dict(plt.rcParams), list(style.COLOURS), dict(style.POLICIES)
    file = tmp_path / "common.style"
    file.write_text(style.style_text())
    style.use_style(file)
    assert (dict(plt.rcParams), style.COLOURS, style.POLICIES) == before


@pytest.mark.parametrize("line, message", [
    ("font.sise: 8", ":1: no setting 'font.sise'; nearest: font.size; allowed: settings of "),
    ("font.size: big", ":1: "),
    ("palette: 12345", ":1: '12345' is no colour; allowed: RRGGBB"),
    ("nothing", ":1: 'nothing': is no setting; allowed: NAME: VALUE")])
def test_a_bad_style_file_is_one_line(tmp_path, line, message):
    file = tmp_path / "own.style"
    file.write_text(line + "\n")
    with pytest.raises(PlotError) as caught:
        style.use_style(file)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_text_for_the_caption_lies_beside_the_figure(tmp_path):
    run = write_run(tmp_path / "r", requests=TWO_TENANTS, summary={"completed": 2})
    (run / "provenance.json").write_text(json.dumps(
        {"version": "0.1.0", "commit": "abc123", "dirty": False, "seed": 7}))
    done = run_script("latency_cdf", run, "--out", tmp_path / "f.svg")
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "f.txt").read_text()
    assert text.startswith("latency_cdf. Distributions of TTFT, TPOT and end-to-end latency")
    assert f"{run}: run, n = 2 completed requests, seed 7, twinserve 0.1.0 at commit abc123\n" in text
    assert f"Command: plots/latency_cdf.py {run} --out {tmp_path / 'f.svg'}\n" in text


def test_the_caption_of_a_study_has_its_seeds(tmp_path):
    study = two_policies(tmp_path / "s")
    (study / "study.json").write_text(json.dumps(
        {"version": "0.1.0", "commit": "abc123", "dirty": True, "points": 6, "replications": 3,
         "seeds": [4, 5, 6]}))
    run_script("attainment_vs_rate", study, "--out", tmp_path)
    assert "study, 6 points, n = 3 runs each, seeds 4 to 6, twinserve 0.1.0 at commit abc123 with " \
           "changes" in (tmp_path / "attainment_vs_rate.txt").read_text()
    assert (tmp_path / "attainment_vs_rate.pdf").is_file()
    assert (tmp_path / "attainment_vs_rate.svg").is_file()


def test_labels_wider_than_their_panel_stay_inside():
    figure, all_axes = plt.subplots(1, 2, figsize=(3, 1.5))
    for axes in all_axes:
        axes.set_xlabel("a label that is far wider than its panel")
    style.finish(figure)
    figure.draw_without_rendering()
    left, right = (axes.xaxis.label.get_window_extent() for axes in all_axes)
    assert left.x0 >= 0 and right.x1 <= figure.bbox.x1
    plt.close(figure)


def latex_of(folder, *more):
    run = write_run(folder / "r_1", requests=TWO_TENANTS, summary={"completed": 2})
    done = run_script("latency_cdf", run, "--out", folder, "--latex", *more)
    assert (done.returncode, done.stderr) == (0, "")
    return (folder / "latency_cdf.tex").read_text()


def test_a_figure_for_latex_has_caption_and_label(tmp_path):
    lines = latex_of(tmp_path, "--width", "1").splitlines()
    assert lines[0].startswith("% plots/latency_cdf.py ")
    assert lines[1:4] == ["\\begin{figure}", "  \\centering", "  \\includegraphics{latency_cdf.pdf}"]
    assert lines[4].startswith("  \\caption{Distributions of TTFT, TPOT and end-to-end latency")
    assert "r\\_1: run, n = 2 completed requests, seed unknown, made by an unknown build.}" in lines[4]
    assert lines[5:] == ["  \\label{fig:latency-cdf}", "\\end{figure}"]


def test_a_wide_figure_for_latex_takes_both_columns(tmp_path):
    text = latex_of(tmp_path, "--width", "2")
    assert "\\begin{figure*}" in text and "\\end{figure*}" in text


def test_latex_cannot_include_svg(tmp_path):
    run = write_run(tmp_path / "r", requests=TWO_TENANTS)
    done = run_script("latency_cdf", run, "--out", tmp_path / "f.svg", "--latex")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "LaTeX reads no svg; allowed: with a figure in pdf or png" in done.stderr
    assert not (tmp_path / "f.svg").exists()


def test_markup_is_no_markup_in_latex():
    assert caption.latex_words('50% of "a_b" $x') == "50\\% of ``a\\_b'' \\$x"


def test_the_figures_compile_in_the_article_class(tmp_path):
    if not shutil.which("pdflatex"):
        pytest.skip("no LaTeX: pdflatex is not installed")
    latex_of(tmp_path, "--width", "1")
    (tmp_path / "paper.tex").write_text("\\documentclass[twocolumn]{article}\\usepackage{graphicx}"
                                        "\\begin{document}\\input{latency_cdf}See~\\ref{fig:latency-cdf}."
                                        "\\end{document}\n")
    done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper"], cwd=tmp_path,
                          capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "fig:latency-cdf" in (tmp_path / "paper.aux").read_text()


def test_widths_other_than_columns_are_inches():
    assert style.parse_width("1") == 1
    assert style.parse_width("5.5") == 5.5
    with pytest.raises(argparse.ArgumentTypeError):
        style.parse_width("1.5")
