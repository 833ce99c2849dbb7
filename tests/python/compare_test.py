"""twinserve.compare against the command line."""
import json

import pytest
import twinserve


def test_runs_are_compared_as_on_the_command_line(tiny, tmp_path, command_line):
    first = twinserve.run(tiny, out=tmp_path / "first")
    second = twinserve.run(tiny, {"cost.constant.step_s": 2e-3}, out=tmp_path / "second")
    compared = twinserve.compare(first, tmp_path / "second")
    printed = json.loads(command_line("compare", first.directory, second.directory, "--format",
                                      "json").stdout)
    for row in printed["metrics"]:
        ours = compared.metrics.loc[row["name"]]
        assert [ours["first"], ours["second"]] == row["values"]
        if row["change_percent"][1] is not None:
            assert ours["second change_percent"] == pytest.approx(row["change_percent"][1])
    assert {row["field"]: row["values"] for row in printed["config"]} == {
        field: list(values) for field, values in compared.config.iterrows()}
    assert "cost.constant.step_s" in compared.config.index


def test_runs_in_memory_are_numbered(tiny):
    run = twinserve.run(tiny)
    compared = twinserve.compare(run, run, metrics=["mean_ttft_ms"])
    assert list(compared.metrics.columns) == ["run 0", "run 1", "run 1 change_percent"]
    assert compared.metrics.loc["mean_ttft_ms", "run 1 change_percent"] == 0
    assert compared.config.empty


def test_an_unknown_metric_is_refused(tiny):
    with pytest.raises(twinserve.InputError, match="no run has mean_ttf_ms"):
        twinserve.compare(twinserve.run(tiny), metrics=["mean_ttf_ms"])
