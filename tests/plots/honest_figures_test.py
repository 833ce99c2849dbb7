"""A figure leaves nothing out without a word, and takes no name for markup."""
import pathlib
import string
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

from figures_test import (common_style, draw, draw_runs, labelled_lines, legend,  # noqa: E402, F401
                          run_script)
import style  # noqa: E402
from run_data import PlotError, read_policy, read_runs  # noqa: E402
from small_inputs import (RATE, THREE_STEPS, TWO_TENANTS, write_run,  # noqa: E402
                          write_summary_csv)

# Markup of matplotlib, TeX and SVG, and every other printable letter of ASCII but the separator of
# paths.
NAMES = ["_base", "__x", "$a^2$", "$", "a\\b", "\\frac{1}{2}", "50%", "{}", "{run}", "<b>&amp;",
         "a,b", "#", "~^", string.printable[:-6].replace("/", "")]


def texts(axes):
    return [text.get_text() for text in axes.texts]


# S6: two lines, one entry.
@pytest.mark.parametrize("script, more", [("latency_cdf", {"requests": TWO_TENANTS}),
                                          ("prefix_hits", {"requests": TWO_TENANTS}),
                                          ("fairness", {"requests": TWO_TENANTS}),
                                          ("itl_cdf", {"gaps": [[0.02, 0.2]]})])
def test_every_run_has_its_name_in_the_legend(tmp_path, script, more):
    runs = [write_run(tmp_path / name, **more) for name in NAMES]
    shown = legend(draw_runs(script, *runs))
    for name in NAMES:
        assert any(text.startswith(name) for text in shown), (name, shown)


def test_names_are_drawn_as_they_are_in_every_format(tmp_path):
    runs = [write_run(tmp_path / name, requests=TWO_TENANTS) for name in ("_base", "$a_1$ < {%}\\")]
    done = run_script("latency_cdf", *runs, "--out", tmp_path / "f.svg")
    assert (done.returncode, done.stderr) == (0, "")
    drawn = (tmp_path / "f.svg").read_text()
    assert ">_base</text>" in drawn
    assert ">$a_1$ &lt; {%}\\</text>" in drawn
    assert "mathdefault" not in drawn


# The library's labels are formulas: "$\\mathdefault{10^{2}}$".
def test_logarithmic_axes_have_numbers(tmp_path):
    rows = [{RATE: rate, "steps": steps} for rate, steps in ((1, 1), (2, 20_000))]
    axes, = draw("metric_vs_parameter", write_summary_csv(tmp_path / "s", rows), "--y",
                 "steps").axes
    assert axes.get_yscale() == "log"
    shown = [text.get_text() for text in axes.get_yticklabels()]
    assert {"1", "100", "10k"} <= set(shown)
    assert not any("$" in text for text in shown)


def test_a_line_break_in_a_label_is_a_blank(tmp_path):
    runs = [write_run(tmp_path / name, requests=TWO_TENANTS) for name in "ab"]
    figure = draw_runs("latency_cdf", *runs, "--labels", "one\ntwo,c")
    assert legend(figure) == ["one two", "c"]


def test_labels_in_quotes_hold_commas(tmp_path):
    runs = [write_run(tmp_path / name, requests=TWO_TENANTS) for name in "ab"]
    figure = draw_runs("latency_cdf", *runs, "--labels", '"a, with b",_c')
    assert legend(figure) == ["a, with b", "_c"]
    with pytest.raises(PlotError, match="a label with a comma is written in quotes"):
        draw_runs("latency_cdf", *runs, "--labels", "a, with b,c")
    with pytest.raises(PlotError, match="two labels are equal"):
        draw_runs("latency_cdf", *runs, "--labels", "a,a")


def test_folders_of_one_name_are_told_apart_by_those_above(tmp_path):
    runs = [write_run(tmp_path / parent / "run", requests=TWO_TENANTS) for parent in "ab"]
    assert legend(draw_runs("latency_cdf", *runs)) == ["a/run", "b/run"]


# `policy: "vllm_v1 { max_num_seqs: 8 }"` and `... 16 }` were both "vLLM V1": one entry.
def test_an_axis_over_whole_messages_keeps_its_entries(tmp_path):
    rows = [{"policy": f'"{policy}"', RATE: rate, "mean_ttft_ms": 5}
            for policy in ("vllm_v1 { max_num_seqs: 8 }", "vllm_v1 { max_num_seqs: 16 }", "orca {}")
            for rate in (1, 2)]
    study = write_summary_csv(tmp_path / "s", rows, ("policy", RATE))
    figure = draw("latency_vs_rate", study, "--metrics", "mean_ttft_ms")
    assert legend(figure) == ["policy = vllm_v1 { max_num_seqs: 8 }",
                              "policy = vllm_v1 { max_num_seqs: 16 }", "Orca"]


def test_a_policy_of_the_callers_own_has_its_name(tmp_path):
    run = write_run(tmp_path / "r", policy="vllm_v1", requests=TWO_TENANTS)
    file = run / "config.resolved.textproto"
    file.write_text("# `policy` did not decide: shortest did, a policy of the caller.\n"
                    + file.read_text())
    assert read_policy(run) == "shortest"
    assert [one.label for one in read_runs([run])] == ["shortest"]


# A resolved configuration as policies in files leave it: a library has no class.
def test_a_policy_in_a_file_has_the_name_of_its_class_or_file(tmp_path):
    for own, name in (('path: "/p/fair.py"\n    class: "Fair"', "Fair"),
                      ('path: "/p/libshortest.so"', "shortest")):
        run = write_run(tmp_path / name, policy="vllm_v1", requests=TWO_TENANTS)
        file = run / "config.resolved.textproto"
        file.write_text(file.read_text().replace("vllm_v1 {", f"own {{\n    {own}", 1))
        assert read_policy(run) == name
    rows = [{"policy": policy, RATE: rate, "mean_ttft_ms": 5}
            for policy in ('own { path: "/p/fair.py" class: "Fair" }', "orca {}") for rate in (1, 2)]
    study = write_summary_csv(tmp_path / "s", rows, ("policy", RATE))
    assert legend(draw("latency_vs_rate", study, "--metrics", "mean_ttft_ms")) == ["Fair", "Orca"]


def times(p50, p99, tpot):
    return {"p50_ttft_ms": p50, "p99_ttft_ms": p99, "p99_tpot_ms": tpot, "p99_itl_ms": tpot,
            "p99_e2el_ms": p99}


# The median reaches over three decades, the others do not.
def test_the_times_of_a_comparison_share_a_kind_of_scale_and_bars_begin_at_zero(tmp_path):
    runs = [write_run(tmp_path / "a", policy="orca", summary=times(1, 5000, 20)),
            write_run(tmp_path / "b", policy="vllm_v1", summary=times(3000, 9000, 30))]
    panels = draw_runs("policy_comparison", *runs).axes
    assert [axes.get_xscale() for axes in panels] == ["log"] * 5 + ["linear"] * 3
    assert all(not axes.patches for axes in panels[:5])
    assert all(axes.get_xlim()[0] == 0 for axes in panels[5:])


def test_neighbouring_latencies_share_a_kind_of_scale(tmp_path):
    rows = [{RATE: rate, "mean_ttft_ms": mean, "p99_ttft_ms": p99}
            for rate, mean, p99 in ((1, 10, 3000), (2, 5000, 9000))]
    study = write_summary_csv(tmp_path / "s", rows)
    panels = draw("latency_vs_rate", study, "--metrics", "mean_ttft_ms,p99_ttft_ms").axes
    assert [axes.get_yscale() for axes in panels] == ["log", "log"]


# S5: TPOT of static batching, whose answers come in one piece, is null.
def test_an_undefined_value_is_named_and_has_no_bar_and_no_point(tmp_path):
    static = write_run(tmp_path / "s", policy="static",
                       summary={**times(1, 2, None), "mean_tpot_ms": None})
    other = write_run(tmp_path / "v", policy="vllm_v1", summary=times(1, 2, 20))
    tpot = draw_runs("policy_comparison", static, other).axes[2]
    assert texts(tpot) == ["undefined", "20"]
    assert [bar.get_width() for bar in tpot.patches] == [0, 20]
    pareto = draw("ttft_tpot_pareto", static, other).axes[0]
    assert list(labelled_lines(pareto)["static"].get_ydata()) == []
    assert texts(pareto) == ["static: undefined"]
    panels = draw("latency_vs_rate", static, other, "--metrics", "p99_tpot_ms,p99_ttft_ms").axes
    assert [texts(axes) for axes in panels] == [["static: undefined"], []]


def test_a_metric_that_no_run_has_leaves_an_empty_panel(tmp_path):
    static = write_run(tmp_path / "s", policy="static", summary=times(1, 2, None))
    panels = draw("latency_vs_rate", static, "--metrics", "p99_tpot_ms,p99_ttft_ms").axes
    assert texts(panels[0]) == ["undefined"]


def test_distributions_name_runs_without_values(tmp_path):
    whole = TWO_TENANTS.replace("2000,500,4000", "2000,,4000")
    runs = [write_run(tmp_path / "s", policy="static", requests=whole, gaps=[[]]),
            write_run(tmp_path / "v", policy="vllm_v1", requests=TWO_TENANTS, gaps=[[0.02]])]
    assert texts(draw_runs("latency_cdf", *runs).axes[1]) == ["static: undefined"]
    assert "static: undefined" in texts(draw_runs("itl_cdf", *runs).axes[0])


# TPOT of 10 ms in every request was drawn on the axis.
def test_equal_values_are_not_hidden_by_the_axis(tmp_path):
    run = write_run(tmp_path / "r", requests=TWO_TENANTS.replace("2000,500,4000", "2000,10,4000"))
    low, high = draw_runs("latency_cdf", run).axes[1].get_xlim()
    assert low < 10 < high


def test_goodput_is_drawn_at_zero_and_named_where_it_is_undefined(tmp_path):
    runs = [write_run(tmp_path / str(value), rate=rate, summary={"good_rate": value})
            for rate, value in ((1.0, 0), (2.0, None))]
    axes = draw("goodput_vs_rate", *runs).axes[0]
    assert "all points: 1 of 2 points undefined" in texts(axes)
    undefined = write_run(tmp_path / "n", summary={"good_rate": None})
    assert "undefined" in texts(draw("goodput_vs_rate", undefined).axes[0])


HEADS = {"requests": TWO_TENANTS, "steps": THREE_STEPS,
         "parts": "step,schedule_ms,build_ms,gemm_ms,attention_ms\n"}


@pytest.mark.parametrize("script", ["step_breakdown", "latency_cdf", "prefix_hits", "fairness",
                                    "batch_over_time", "policy_comparison", "goodput_vs_rate",
                                    "ttft_tpot_pareto", "user_vs_gpu_throughput"])
def test_a_run_in_which_nothing_completes_ends_in_no_traceback(tmp_path, script):
    nothing = dict.fromkeys(["p50_ttft_ms", "p99_ttft_ms", "p99_tpot_ms", "p99_itl_ms",
                             "p99_e2el_ms", "mean_tpot_ms", "good_rate", "offered_rate"])
    run = write_run(tmp_path / "r", summary=nothing,
                    **{name: text.splitlines()[0] + "\n" for name, text in HEADS.items()})
    done = run_script(script, run, "--out", tmp_path / "f.png")
    assert "Traceback" not in done.stderr
    assert done.returncode == 0 or done.stderr.count("\n") == 1, done.stderr


def test_a_run_without_steps_stands_beside_others(tmp_path):
    run = write_run(tmp_path / "r", **{name: text.splitlines()[0] + "\n"
                                       for name, text in HEADS.items()})
    with pytest.raises(PlotError, match="no run has a step"):
        draw_runs("step_breakdown", run)
    other = write_run(tmp_path / "o", policy="vllm_v1", steps=THREE_STEPS,
                      parts="step,gemm_ms\n1,2\n2,2\n3,1\n")
    labels = [text.get_text() for text in draw_runs("step_breakdown", run, other).axes[0]
              .get_yticklabels()]
    assert labels == ["Orca, no step", "vLLM V1, prefill", "vLLM V1, mixed", "vLLM V1, decode"]


def test_tenants_that_are_not_drawn_are_counted(tmp_path):
    head, *_ = TWO_TENANTS.splitlines()
    rows = [f"{tenant},0,0.5,1,2,10,5,0,1000,500,2000" for tenant in range(10)]
    run = write_run(tmp_path / "r", requests="\n".join([head, *rows]) + "\n")
    assert draw_runs("fairness", run).axes[0].get_title() == "Orca (8 of 10 tenants)"


def test_lists_of_words_follow_csv():
    assert style.parse_list('a,"b, c", d') == ["a", "b, c", "d"]
