"""twinserve.sweep and twinserve.capacity against the command line."""
import json
import math
import threading
import time

import pandas as pd
import pytest
import twinserve
from twinserve._extras import read_csv


@pytest.fixture
def study(tiny, tmp_path):
    (tmp_path / "base.textproto").write_text(tiny)
    path = tmp_path / "study.textproto"
    path.write_text('base: "base.textproto"\n'
                    'axis { path: "cost.constant.step_s" values: [1e-3, 2e-3] }\n'
                    'axis { path: "workload.arrivals.rate" from: 20 to: 40 steps: 3 }\n'
                    "replications: 2\n")
    return path


def test_a_sweep_is_the_table_of_the_command_line(study, tmp_path, command_line):
    command_line("sweep", study, "--out", tmp_path / "expected")
    expected = read_csv(tmp_path / "expected/results.csv", dtype={"error": str, "digest": str})
    for jobs in (1, 2):
        pd.testing.assert_frame_equal(twinserve.sweep(study, jobs=jobs), expected)
    assert len(expected) == 2 * 3 * 2
    assert expected["error"].isna().all()


def test_a_sweep_continues_in_its_folder(study, tmp_path):
    out = tmp_path / "out"
    first = twinserve.sweep(study, out=out)
    assert (out / "summary.csv").is_file()
    pd.testing.assert_frame_equal(twinserve.sweep(study, out=out), first)
    with pytest.raises(twinserve.InputError, match="study"):
        twinserve.sweep(study, out=out, overrides={"workload.requests": 3})


def test_a_folder_has_the_table_as_parquet(study, tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (tools/setup cluster)")
    out = tmp_path / "out"
    frame = twinserve.sweep(study, out=out)
    pd.testing.assert_frame_equal(pd.read_parquet(out / "results.parquet"), frame)


def test_a_failed_run_is_a_row_and_a_warning(study):
    text = study.read_text().replace("[1e-3, 2e-3]", "[1e-3, -1]")
    study.write_text(text)
    with pytest.warns(twinserve.RunWarning) as told:
        frame = twinserve.sweep(study)
    assert frame["error"].notna().sum() == 6
    # The first three errors, then the number of all.
    texts = [str(warning.message) for warning in told]
    assert len(texts) == 4 and all(text.startswith("point ") for text in texts[:3])
    assert texts[3] == "6 runs failed; the column error says why"


def test_notes_of_a_sweep_are_logged(study, tmp_path, caplog):
    with caplog.at_level("INFO", logger="twinserve"):
        twinserve.sweep(study, out=tmp_path / "out")
        assert caplog.messages == []
        twinserve.sweep(study, out=tmp_path / "out")
    assert caplog.messages == ["12 of 12 runs are there from before"]


@pytest.mark.parametrize("read", [
    lambda text: twinserve.sweep(text),
    lambda text: twinserve.capacity(text, "workload.arrivals.rate", (1, 2), "p99_ttft_ms<=1"),
], ids=["study", "experiment"])
def test_python_goes_on_while_a_long_text_is_read(read):
    text = "# " + 50_000_000 * "x" + "\nno_such_field: 1\n"
    counted = 0
    refused = threading.Event()

    def call():
        with pytest.raises(twinserve.InputError, match="no_such_field"):
            read(text)
        refused.set()

    thread = threading.Thread(target=call)
    thread.start()
    while thread.is_alive():
        counted += 1
        time.sleep(0.001)
    assert refused.is_set()
    assert counted > 5


def test_a_capacity_is_the_answer_of_the_command_line(tiny, tmp_path, command_line):
    # Sequences take turns in a batch of at most one: a request of 8 steps of 1 ms fits 125 times
    # into a second.
    path = tmp_path / "base.textproto"
    path.write_text(tiny.replace("max_num_seqs: 16", "max_num_seqs: 1")
                    .replace("constant rate", "poisson rate"))
    asked = dict(vary="workload.arrivals.rate", until="p99_ttft_ms<=100", replications=10,
                 doublings=1)
    found = twinserve.capacity(path, between=(10, 200), **asked)
    printed = json.loads(command_line(
        "capacity", path, "--vary", asked["vary"], "--between", "10,200", "--until",
        asked["until"], "--replications", 10, "--doublings", 1, "--format", "json").stdout)
    for key in ("value", "runs", "requests", "verdict", "limiting", "settled"):
        assert found.loc[0, key] == printed[key], key
    assert 60 < found.loc[0, "value"] < 125
    for key in ("x", "verdict"):
        assert [probe[key] for probe in found.attrs["probes"][0]] == [
            probe[key] for probe in printed["probes"]]
    assert {probe["verdict"] for probe in printed["probes"]} >= {"accepted", "rejected"}


@pytest.mark.parametrize("between", [(10, math.inf), (-math.inf, 10), (math.nan, 10)])
def test_a_capacity_is_looked_for_between_finite_numbers(tiny, between):
    with pytest.raises(twinserve.InputError, match="between: is .*; allowed: two finite numbers"):
        twinserve.capacity(tiny, "workload.arrivals.rate", between, "p99_ttft_ms<=100")


@pytest.mark.parametrize("asked, what", [
    (dict(jobs=0), "jobs"),
    (dict(overrides={"no.such": 1}), "no"),
])
def test_bad_questions_are_refused(study, asked, what):
    with pytest.raises(twinserve.InputError, match=what):
        twinserve.sweep(study, **asked)
