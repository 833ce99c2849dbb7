"""twinserve.run, load and resolve against the command line."""
import json
import pathlib
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import twinserve

FEW = {"workload.requests": 300}
# What the process used, not what the run did.
OF_THE_PROCESS = {"cpu_seconds", "peak_rss_mib"}


@pytest.fixture(scope="module")
def by_command_line(command_line, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    command_line("run", "experiments/quickstart/vllm_v1.textproto", "--set",
                 "workload.requests=300", "--out", out)
    return out


def of_the_run(summary):
    return {key: value for key, value in summary.items() if key not in OF_THE_PROCESS}


def test_a_run_in_memory_equals_the_command_line(quickstart, by_command_line):
    run = twinserve.run(quickstart, FEW)
    expected = json.loads((by_command_line / "summary.json").read_text())
    assert of_the_run(run.summary) == of_the_run(expected)
    assert list(run.summary) == list(expected)
    assert run.digest == expected["digest"]
    assert run.config == (by_command_line / "config.resolved.textproto").read_text()
    assert run.directory is None


@pytest.mark.parametrize("table", ["requests", "steps", "series"])
def test_tables_in_memory_equal_the_csv_files_digit_by_digit(quickstart, by_command_line, table):
    frame = getattr(twinserve.run(quickstart, FEW), table)
    header = (by_command_line / f"{table}.csv").read_text().split("\n")[0]
    assert list(frame.columns) == header.split(",")
    pd.testing.assert_frame_equal(frame, getattr(twinserve.load(by_command_line), table),
                                  check_exact=True)


def test_a_run_directory_is_what_the_command_line_writes(quickstart, by_command_line, tmp_path):
    run = twinserve.run(quickstart, FEW, out=tmp_path / "run")
    assert run.directory == tmp_path / "run"
    for name in ("requests.csv", "steps.csv", "series.csv", "config.resolved.textproto"):
        assert (run.directory / name).read_bytes() == (by_command_line / name).read_bytes(), name
    assert run.digest == twinserve.load(by_command_line).digest


def test_replay_finds_equal_plans(by_command_line):
    replayed = twinserve.replay(by_command_line)
    assert replayed.equal and replayed.difference is None
    assert replayed.digest == twinserve.load(by_command_line).digest
    assert replayed.equal_plans == replayed.plans > 0


def test_numbers_are_not_copied(tiny):
    run = twinserve.run(tiny)
    column = run.requests["ttft_ms"].to_numpy()
    native = run._native.requests["ttft_ms"][0]
    assert np.shares_memory(column, native)


def test_columns_outlive_their_run(tiny):
    column = twinserve.run(tiny).requests["request"]
    assert sorted(column) == list(range(100))


def test_a_text_is_an_experiment(tiny):
    # Step 1 computes the whole prompt of 64 tokens: the first token is there 1 ms after arrival.
    run = twinserve.run(tiny)
    assert run.summary["completed"] == 100
    assert run.summary["mean_ttft_ms"] == pytest.approx(1.0)
    assert run.summary["mean_tpot_ms"] == pytest.approx(1.0)


def test_overrides_are_those_of_set(tiny):
    run = twinserve.run(tiny, {"workload.requests": np.int64(7), "cost.constant.step_s": 2e-3,
                               "outputs.steps_csv": False})
    assert run.summary["completed"] == 7
    assert run.summary["mean_ttft_ms"] == pytest.approx(2.0)
    with pytest.raises(twinserve.InputError, match="outputs.steps_csv"):
        run.steps
    assert twinserve.run(tiny, {"policy.vllm_v1.max_num_seqs": None}).summary["completed"] == 100


def test_a_resolved_config_runs_again(tiny):
    run = twinserve.run(tiny)
    assert twinserve.run(run.config).digest == run.digest
    assert "max_num_seqs: 16" in twinserve.resolve(tiny)


def test_the_error_is_the_line_of_the_command_line(command_line, quickstart):
    change = "policy.vllm_v1.max_num_sequences"
    with pytest.raises(ValueError) as raised:
        twinserve.run(quickstart, {change: 3})
    assert isinstance(raised.value, twinserve.InputError)
    printed = command_line("run", quickstart, "--set", f"{change}=3", check=False)
    assert printed.returncode == 2
    assert printed.stderr == f"twinserve: {raised.value}\n"


@pytest.mark.parametrize("experiment, what", [
    ("no/such/file.textproto", "no/such/file.textproto"),
    ("workload { requets: 3 }", "experiment:1"),
    ("workload { requests: 3 }", "policy: is missing"),
])
def test_bad_experiments_name_the_place(experiment, what):
    with pytest.raises(twinserve.InputError, match=what):
        twinserve.run(experiment)


def test_a_folder_without_summary_is_no_run(tmp_path):
    with pytest.raises(twinserve.InputError, match="no summary.json"):
        twinserve.load(tmp_path)


def test_warnings_are_python_warnings(tiny):
    prediction = "{ kind: oracle }"
    with pytest.warns(twinserve.RunWarning, match="does not read predictions"):
        twinserve.run(tiny, {"workload.prediction": prediction})


def test_words_are_the_same_in_memory_and_in_a_run_directory(tiny, tmp_path):
    in_memory, read = twinserve.run(tiny), twinserve.run(tiny, out=tmp_path / "run")
    for name, words in (("status", 6), ("reject_reason", 3)):
        categories = list(in_memory.requests[name].cat.categories)
        assert len(categories) == words
        assert list(read.requests[name].cat.categories) == categories


def test_arrow_tables_hold_the_same_columns(tiny):
    pytest.importorskip("pyarrow")
    run = twinserve.run(tiny)
    table = run.to_arrow()
    assert table.column_names == list(run.requests.columns)
    assert table["ttft_ms"].to_pylist() == list(run.requests["ttft_ms"])


def test_a_run_that_is_held_until_the_process_ends_gives_no_warning(tiny):
    # As pyarrow holds columns: a reference that nobody gives back.
    script = ("import ctypes, twinserve\n"
              f"run = twinserve.run({tiny!r})\n"
              "ctypes.pythonapi.Py_IncRef(ctypes.py_object(run._native))\n")
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                           check=True)
    assert "nanobind" not in ended.stderr


def test_a_real_run_has_tables_without_a_directory():
    experiment = pathlib.Path("experiments/quickstart_cpu/vllm_v1.textproto")
    run = twinserve.run(experiment, {"workload.requests": 3, "workload.arrivals.rate": 1000})
    assert run.summary["completed"] == 3
    assert len(run.requests) == 3
    assert run.directory is None
