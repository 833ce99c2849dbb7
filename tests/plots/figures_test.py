"""What the figures of plots/ show on small inputs: lines, looks, labels, limits, markers."""
import argparse
import importlib
import pathlib
import subprocess
import sys

import pytest

PLOTS = pathlib.Path(__file__).resolve().parents[2] / "plots"
sys.path[:0] = [str(PLOTS), str(pathlib.Path(__file__).resolve().parent)]

import points  # noqa: E402 (its folder comes first)
import style  # noqa: E402
from caption import facts_of  # noqa: E402
from environment import np, plt  # noqa: E402
from run_data import PlotError  # noqa: E402
from small_inputs import (RATE, THREE_PARTS, THREE_STEPS, TWO_TENANTS, capacities,  # noqa: E402
                          many_lines, recommendation, two_policies, validation, write_measured,
                          write_run, write_summary_csv)

SCRIPTS = sorted(file.stem for file in PLOTS.glob("*.py") if "style.main(" in file.read_text()
                 and file.stem != "style")


@pytest.fixture(autouse=True)
def common_style():
    style.use_style()
    yield
    plt.close("all")


def draw(script, *words, read=points.read_points):
    module = importlib.import_module(script)
    parser = style.make_parser("", "INPUT", getattr(module, "options", None) or module.__dict__.get(
        "load_options"))
    arguments = parser.parse_args([str(word) for word in words])
    figure = module.draw(read(arguments.inputs, arguments), arguments)
    style.finish(figure)
    figure.canvas.draw()
    return figure


def draw_runs(script, *words):
    return draw(script, *words, read=style.styled_runs)


def labelled_lines(axes):
    return {line.get_label(): line for line in axes.get_lines()
            if not line.get_label().startswith("_")}


def hollow(axes):
    """x of all points with a white face."""
    return sorted(x for line in axes.get_lines() if line.get_markerfacecolor() == "white"
                  for x in line.get_xdata())


def look(line):
    return (line.get_color(), line.get_marker(), line.get_linestyle(),
            line._unscaled_dash_pattern)


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_latency_has_a_line_per_policy_and_a_panel_per_metric(tmp_path):
    figure = draw("latency_vs_rate", two_policies(tmp_path / "s"))
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "mean TTFT (ms)", "p99 TTFT (ms)", "p99 TPOT (ms)"]
    for axes in figure.axes:
        assert list(labelled_lines(axes)) == ["Orca", "vLLM V1"]
        assert axes.get_yscale() == "log"  # from 40 ms to 9 s
        assert axes.get_xlabel() == "rate (requests/s)"
    assert legend(figure) == ["Orca", "vLLM V1", "saturated"]


def test_saturated_points_are_hollow_and_end_the_thick_line(tmp_path):
    axes = draw("latency_vs_rate", two_policies(tmp_path / "s")).axes[0]
    assert hollow(axes) == [3]
    assert np.isnan(labelled_lines(axes)["Orca"].get_ydata()[2])
    assert not np.isnan(labelled_lines(axes)["vLLM V1"].get_ydata()).any()


def test_bands_are_the_intervals_of_the_study(tmp_path):
    figure = draw("latency_vs_rate", two_policies(tmp_path / "s"), "--metrics", "mean_ttft_ms")
    axes = figure.axes[0]
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(50 / 1.1)  # a logarithmic axis: as far down as up
    assert band[:, 1].max() == pytest.approx(9900)


def test_no_two_of_forty_lines_look_alike(tmp_path):
    axes = draw("latency_vs_rate", many_lines(tmp_path / "s", 40), "--metrics",
                "mean_ttft_ms").axes[0]
    lines = labelled_lines(axes).values()
    assert len({str(look(line)) for line in lines}) == 40
    assert len({str(look(line)[::3]) for line in lines}) == 40  # without the markers


def test_too_many_lines_are_refused(tmp_path):
    with pytest.raises(PlotError, match="41 lines would look alike; allowed: at most 40"):
        draw("latency_vs_rate", many_lines(tmp_path / "s", 41), "--metrics", "mean_ttft_ms")


def test_attainment_marks_the_load_at_the_target(tmp_path):
    axes = draw("attainment_vs_rate", two_policies(tmp_path / "s")).axes[0]
    assert axes.get_ylim() == (0, 104)
    marks = [line for line in axes.get_lines() if line.get_label() == "_capacity"]
    assert [line.get_xdata()[0] for line in marks] == [pytest.approx(2.5)]
    assert any(list(line.get_ydata()) == [90, 90] for line in axes.get_lines())


def test_goodput_joins_no_points_of_different_configurations(tmp_path):
    runs = [write_run(tmp_path / f"{seqs}_{rate}", rate=rate, settings=f"max_num_seqs: {seqs}",
                      summary={"good_rate": rate / seqs})
            for seqs in (1, 2) for rate in (1.0, 3.0)]
    axes = draw("goodput_vs_rate", *runs).axes[0]
    lines = labelled_lines(axes)
    assert {label: list(line.get_ydata()) for label, line in lines.items()} == {
        "max_num_seqs = 1": [1, 3], "max_num_seqs = 2": [0.5, 1.5]}
    assert look(lines["max_num_seqs = 1"]) != look(lines["max_num_seqs = 2"])


def test_fields_that_follow_from_the_policy_tell_no_lines_apart(tmp_path):
    runs = [write_run(tmp_path / f"{policy}_{rate}", policy=policy, rate=rate, memory=rule)
            for policy, rule in (("orca", "orca"), ("vllm_v1", "vllm")) for rate in (1.0, 2.0)]
    assert points.read_run_directories(runs).settings == ["policy", RATE]
    assert list(labelled_lines(draw("goodput_vs_rate", *runs).axes[0])) == ["Orca", "vLLM V1"]


def test_points_of_one_load_on_one_line_are_refused(tmp_path):
    study = two_policies(tmp_path / "s")
    with pytest.raises(PlotError, match="several points have the same"):
        draw("latency_vs_rate", study, "--line", "n")


def test_runs_that_differ_in_their_seeds_are_one_point(tmp_path):
    runs = [write_run(tmp_path / str(seed), seed=seed, summary={"mean_ttft_ms": value})
            for seed, value in ((1, 10), (2, 20), (3, 30))]
    table = points.read_run_directories(runs).table
    assert len(table) == 1
    assert table["n"][0] == 3
    assert table["mean_ttft_ms"][0] == 20


def test_rows_with_errors_are_left_out_of_results(tmp_path):
    (tmp_path / "results.csv").write_text(
        f"point,{RATE},replication,seed,saturated,mean_ttft_ms,error\n"
        "0,1,0,1,no,10,\n0,1,1,2,yes,30,\n0,1,2,3,no,999,bad\n1,2,0,1,yes,50,\n")
    found = points.read_study(tmp_path)
    assert found.settings == [RATE]
    assert list(found.table["mean_ttft_ms"]) == [20, 50]
    assert list(found.table["saturated"]) == ["undecided", "yes"]
    assert np.isnan(found.table["mean_ttft_ms_low"][1])


def test_pareto_frontier_is_stepped_and_only_of_steady_points(tmp_path):
    rows = [{RATE: 1, "policy.sarathi.chunk_size": chunk, "p99_ttft_ms": ttft, "p99_tpot_ms": tpot,
             "saturated": saturated}
            for chunk, ttft, tpot, saturated in [(64, 300, 10, "no"), (128, 200, 20, "no"),
                                                 (256, 250, 30, "no"), (512, 100, 40, "no"),
                                                 (1024, 50, 5, "yes")]]
    study = write_summary_csv(tmp_path / "s", rows, ("policy.sarathi.chunk_size", RATE))
    figure = draw("ttft_tpot_pareto", study)
    steps = labelled_lines(figure.axes[0])["frontier"]
    assert steps.get_drawstyle() == "steps-post"
    assert list(steps.get_xdata())[1:-1] == [100, 200, 300]
    assert list(steps.get_ydata())[1:] == [40, 20, 10, 10]
    assert hollow(figure.axes[0]) == [50]


def test_users_and_gpus_share_the_tokens(tmp_path):
    runs = [write_run(tmp_path / str(rate), rate=rate,
                      summary={"output_token_rate": 100 * rate, "devices": 2})
            for rate in (1.0, 2.0)]
    axes = draw("user_vs_gpu_throughput", *runs).axes[0]
    line = next(line for line in axes.get_lines() if line.get_label() == "_joined")
    assert list(line.get_xdata()) == [50, 50]  # 1000 / 20 ms
    assert list(line.get_ydata()) == [50, 100]  # on two GPUs


def test_tokens_are_counted_by_power_and_by_price(tmp_path):
    run = write_run(tmp_path / "run", rate=1.0,
                    summary={"output_throughput": 100, "mean_power_w": 500,
                             "cost_per_million_output_tokens_usd": 4})
    for per, expected in (("mw", 200_000), ("dollar", 250_000)):
        axes = draw("user_vs_gpu_throughput", run, "--per", per).axes[0]
        line = next(line for line in axes.get_lines() if line.get_label() == "_joined")
        assert list(line.get_ydata()) == [expected]


def test_power_that_no_data_sheet_knows_is_named(tmp_path):
    run = write_run(tmp_path / "run", rate=1.0, summary={"output_throughput": 100})
    with pytest.raises(PlotError, match="mean_power_w"):
        draw("user_vs_gpu_throughput", run, "--per", "mw")


def test_colours_follow_one_setting_and_dashes_the_others(tmp_path):
    rows = [{"policy.a.chunk": chunk, "policy.a.seqs": seqs, RATE: rate, "p99_ttft_ms": 1}
            for chunk in (1, 2) for seqs in (8, 16) for rate in (1, 2)]
    study = write_summary_csv(tmp_path / "s", rows, ("policy.a.chunk", "policy.a.seqs", RATE))
    axes = draw("metric_vs_parameter", study, "--x", RATE, "--colour", "policy.a.chunk").axes[0]
    lines = labelled_lines(axes)
    assert len(lines) == 4
    first, second, third, _ = lines.values()
    assert first.get_color() == second.get_color() != third.get_color()
    assert look(first)[3] == look(third)[3] != look(second)[3]


def test_parameters_that_double_have_a_logarithmic_axis(tmp_path):
    rows = [{"policy.a.chunk": chunk, "p99_ttft_ms": chunk} for chunk in (256, 512, 1024, 2048)]
    axes = draw("metric_vs_parameter",
                write_summary_csv(tmp_path / "s", rows, ("policy.a.chunk",))).axes[0]
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["256", "512", "1k", "2k"]


def test_step_breakdown_stacks_the_means_of_each_kind(tmp_path):
    run = write_run(tmp_path / "r", steps=THREE_STEPS, parts=THREE_PARTS)
    axes = draw_runs("step_breakdown", run).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "Orca, prefill", "Orca, mixed", "Orca, decode"]
    gemm = next(bars for bars in axes.containers if bars.get_label() == "GEMM")
    assert [bar.get_width() for bar in gemm] == [30, 20, 5]
    assert "44 ms, 1 step" in [text.get_text() for text in axes.texts]


def test_gaps_have_a_logarithmic_axis_and_the_share_of_stalls(tmp_path):
    run = write_run(tmp_path / "r", gaps=[[0.02, 0.02, 0.2], [0.02]])
    figure = draw_runs("itl_cdf", run)
    assert [axes.get_xscale() for axes in figure.axes] == ["log", "log"]
    assert legend(figure) == ["Orca (25 % stalls)"]
    curve = labelled_lines(figure.axes[0])["Orca (25 % stalls)"]
    assert (curve.get_xdata()[-1], curve.get_ydata()[-1]) == (200, 1)
    assert figure.axes[1].get_yscale() == "log"
    assert [list(line.get_xdata()) for line in figure.axes[0].get_lines()
            if line.get_label() == "_stall"] == [[100, 100]]


def test_batches_stack_prefill_on_decode_below_the_budget(tmp_path):
    run = write_run(tmp_path / "r", policy="vllm_v1", steps=THREE_STEPS)
    tokens, sequences = draw_runs("batch_over_time", run).axes
    assert tokens.get_xlim() == (0, 3)
    assert tokens.get_ylim()[0] == 0
    assert tokens.collections[1].get_paths()[0].vertices[:, 1].max() == 48
    assert list(labelled_lines(tokens)["token budget"].get_ydata()) == [64, 64]
    assert list(sequences.get_lines()[0].get_ydata()) == [1, 2, 2, 2]  # the axis ends with the run


def test_batches_of_a_later_run_stay_inside_the_axes(tmp_path):
    small = write_run(tmp_path / "small", policy="sarathi", steps=THREE_STEPS)
    large = write_run(tmp_path / "large", steps=THREE_STEPS.replace("48", "4800"))
    axes = draw_runs("batch_over_time", small, large).axes[2]
    assert axes.get_ylim()[1] >= 4800


def test_prefix_hits_are_those_of_the_prompts_tokens(tmp_path):
    run = write_run(tmp_path / "r", requests=TWO_TENANTS)
    figure = draw_runs("prefix_hits", run)
    assert legend(figure) == ["Orca (38 %)"]  # 15 of 40
    assert figure.axes[0].get_ylim() == (0, 102)


def test_service_counts_prompt_tokens_once_and_output_tokens_twice(tmp_path):
    run = write_run(tmp_path / "r", requests=TWO_TENANTS)
    gap = draw_runs("fairness", run).axes[-1].get_lines()[0]
    # At 4 s tenant 0 has 10, tenant 1 has 30 + 2 * 5; at 3 s half of its output.
    values = dict(zip(np.round(gap.get_xdata(), 6), gap.get_ydata()))
    assert values[4.0] == pytest.approx(30)
    assert values[3.0] == pytest.approx(25)
    assert values[1.0] == pytest.approx(10)


def test_latency_distributions_of_runs_of_one_policy_differ_in_look(tmp_path):
    runs = [write_run(tmp_path / f"r{i}", requests=TWO_TENANTS) for i in range(6)]
    lines = labelled_lines(draw_runs("latency_cdf", *runs).axes[0])
    assert list(lines) == [f"r{i}" for i in range(6)]
    assert len({str(look(line)[1:]) for line in lines.values()}) == 6  # without the colour


def test_a_prediction_is_drawn_beside_the_runs_that_it_names(tmp_path):
    for name in ("a", "b"):
        write_run(tmp_path / name, requests=TWO_TENANTS)
    module = importlib.import_module("predicted_vs_measured")
    shown = module.read_validation(validation(tmp_path / "v", ["a", "b"]))
    axes = module.draw([shown], argparse.Namespace(width=None, venue="acm")).axes[0]
    assert list(labelled_lines(axes)) == ["measured", "measured again", "predicted"]
    with pytest.raises(PlotError, match="is not a run directory"):
        module.read_validation(validation(tmp_path / "w", ["c"]))


def test_labels_rename_the_series_and_must_be_one_for_each(tmp_path):
    study = two_policies(tmp_path / "s")
    assert legend(draw("goodput_vs_rate", study, "--labels", "A,B")) == ["A", "B", "saturated"]
    with pytest.raises(PlotError, match=r"1 labels for 2 series \(Orca, vLLM V1\)"):
        draw("goodput_vs_rate", study, "--labels", "A")


def test_widths_are_those_of_papers(tmp_path):
    study = two_policies(tmp_path / "s")
    for words, inches in (([], 3.34), (["--width", "2"], 7.01), (["--width", "5"], 5.0),
                          (["--venue", "ieee"], 3.49), (["--venue", "usenix"], 3.33),
                          (["--venue", "icml", "--width", "2"], 6.75),
                          (["--venue", "neurips"], 5.5)):
        assert draw("attainment_vs_rate", study, *words).get_figwidth() == inches
    with pytest.raises(argparse.ArgumentTypeError):
        style.parse_width("three")


def test_the_suffix_of_out_gives_the_format():
    path = pathlib.Path("figures/a.pdf")
    assert style.output_files(path, ["png"], "stem") == [path]
    assert style.output_files(pathlib.Path("figures"), ["svg", "pdf"], "stem") == [
        pathlib.Path("figures/stem.svg"), pathlib.Path("figures/stem.pdf")]


def run_script(script, *words, **more):
    return subprocess.run([sys.executable, PLOTS / f"{script}.py", *map(str, words)],
                          capture_output=True, text=True, check=False, timeout=120, **more)


@pytest.mark.parametrize("suffix", ["pdf", "svg", "png"])
def test_equal_inputs_give_equal_files(tmp_path, suffix):
    study = two_policies(tmp_path / "s")
    written = []
    for name in ("a", "b"):
        done = run_script("attainment_vs_rate", study, "--out", tmp_path / f"{name}.{suffix}")
        assert (done.returncode, done.stderr) == (0, "")
        written.append((tmp_path / f"{name}.{suffix}").read_bytes())
    assert written[0] == written[1]


def draw_with(script, reader, *words):
    return draw(script, *words, read=getattr(importlib.import_module(script), reader))


@pytest.mark.parametrize("lower_is_better, best", [(False, [12, 15]), (True, [10, 11])])
def test_a_setting_is_drawn_at_the_best_of_all_others(tmp_path, lower_is_better, best):
    path = recommendation(tmp_path, lower_is_better)
    axes, = draw_with("recommended_settings", "read_answers", path).axes
    lines = labelled_lines(axes)
    assert list(lines["vllm 0.33.0"].get_xdata()) == [512, 2048]
    assert list(lines["vllm 0.33.0"].get_ydata()) == best
    assert list(lines["tgi 3.3.7"].get_ydata()) == [6, 8]
    assert axes.get_title() == "small"


def test_a_server_without_the_setting_is_a_level(tmp_path):
    path = recommendation(tmp_path)
    axes, = draw_with("recommended_settings", "read_answers", path, "--setting",
                      "max_num_seqs").axes
    lines = labelled_lines(axes)
    assert list(lines["tgi 3.3.7 (no such setting)"].get_ydata()) == [8, 8]
    assert list(lines["vllm 0.33.0"].get_ydata()) == [11, 15]


def test_the_usual_advice_is_hatched(tmp_path):
    axes, = draw_with("usual_advice", "read_comparisons", capacities(tmp_path)).axes
    bars = [patch for patch in axes.patches if patch.get_width() > 0]
    assert [bar.get_width() for bar in bars] == [1, 2]
    assert [bool(bar.get_hatch()) for bar in bars] == [True, False]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["TGI 2, advice",
                                                                      "TGI 2 as it starts"]
    assert axes.get_title() == "L4 (24 GB)"


@pytest.mark.parametrize("words, message", [
    (["NOWHERE"], "is neither a study (summary.csv, results.csv) nor a run directory"),
    (["STUDY", "--metrics", "p99_tfft_ms"], "has no column p99_tfft_ms"),
    (["STUDY", "--where", f"{RATE}=77"], "has no point to draw"),
    (["STUDY", "--slo", "p99_ttft_ms=x"], "is no bound"),
])
def test_bad_input_is_one_line(tmp_path, words, message):
    places = {"STUDY": two_policies(tmp_path / "s"), "NOWHERE": tmp_path}
    done = run_script("latency_vs_rate", *(places.get(word, word) for word in words), "--out",
                      tmp_path / "f.png")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_package_names_the_command_that_installs_it(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ModuleNotFoundError('', name='matplotlib')")
    done = run_script("latency_vs_rate", tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode != 0
    assert "package matplotlib is missing. `tools/setup python` installs it" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_explains_itself(script):
    module = importlib.import_module(script)
    assert module.__doc__.strip().endswith(".")
    page = (PLOTS.parent / "docs/figures.md").read_text()
    assert f"plots/{script}.py" in page, "docs/figures.md names every figure"


# Two requests as a client measured them; the second came in one piece.
MEASURED_REQUESTS = """arrival_s,prompt_tokens,output_tokens,ttft_ms,tpot_ms,e2el_ms
0,10,5,20,10,60
1,30,5,780,,780
"""


@pytest.mark.parametrize("script", ["latency_cdf", "itl_cdf", "policy_comparison"])
def test_a_measured_run_stands_beside_simulated_ones(tmp_path, script):
    measured = write_measured(tmp_path / "run.measured" / "measured", MEASURED_REQUESTS,
                              gaps=[[0.01, 0.01, 0.01, 0.01]])
    run = write_run(tmp_path / "a", requests=TWO_TENANTS, gaps=[[0.02, 0.02]])
    figure = draw_runs(script, measured, run)
    shown = {text.split(" (")[0] for axes in figure.axes
             for text in [*labelled_lines(axes), *(t.get_text() for t in axes.get_yticklabels())]}
    assert {"measured", "Orca"} <= shown
    if script == "latency_cdf":  # the answer in one piece has no time between tokens
        lines = labelled_lines(figure.axes[1])
        assert list(lines["measured"].get_xdata()) == [10, 10]


@pytest.mark.parametrize("script, file", [
    ("load_over_time", "series.csv"), ("batch_over_time", "steps.csv"),
    ("step_breakdown", "steps.csv"), ("itl_cdf", "vllm_bench.json")])
def test_the_file_that_a_measured_run_lacks_is_named(tmp_path, script, file):
    measured = write_measured(tmp_path / "measured", MEASURED_REQUESTS)
    with pytest.raises(PlotError, match=f"is a measured run, which has no {file}; it has "
                                        "summary.json, requests.csv"):
        draw_runs(script, measured)


@pytest.mark.parametrize("script, options", [("ttft_tpot_pareto", ["--x", "mean_tpot_ms"]),
                                             ("user_vs_gpu_throughput", ["--gpus", "2"])])
def test_a_measured_run_is_a_point_on_its_own_frontier(tmp_path, script, options):
    """It has no load that was configured, so that no simulated run has the same one."""
    values = {"p99_tpot_ms": 30}
    measured = write_measured(tmp_path / "m" / "measured", summary=values)
    runs = [write_run(tmp_path / str(rate), rate=rate, summary={"p99_tpot_ms": 20 + rate})
            for rate in (1.0, 2.0)]
    axes = draw(script, measured, *runs, *options).axes[0]
    assert list(labelled_lines(axes)["measured"].get_xdata())


def test_captions_name_what_was_measured(tmp_path):
    measured = write_measured(tmp_path / "measured", MEASURED_REQUESTS)
    assert facts_of(measured) == "measured (vLLM bench), n = 2 completed requests"
