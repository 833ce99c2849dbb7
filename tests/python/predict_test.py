"""twinserve.predict_operations, predict_steps and predict_serving against the command line."""
import pandas as pd
import pytest
import twinserve
from twinserve._extras import read_csv

GEMMS = pd.DataFrame({"m": [1, 64, 4096], "n": [4096] * 3, "k": [4096] * 3})
STEPS = pd.DataFrame({"decode_reqs": [16, 0], "decode_context_tokens": [16000, 0],
                      "prefill_reqs": [0, 1], "prefill_tokens": [0, 512]})


def test_operations_equal_the_command_line(tmp_path, command_line):
    GEMMS.to_csv(tmp_path / "in.csv", index=False)
    command_line("predict", "ops", "--hardware", "h100-sxm", "--op", "gemm", "--in",
                 tmp_path / "in.csv", "--out", tmp_path / "out.csv")
    expected = read_csv(tmp_path / "out.csv")
    pd.testing.assert_frame_equal(twinserve.predict_operations(GEMMS, "h100-sxm", "gemm"), expected)
    pd.testing.assert_frame_equal(
        twinserve.predict_operations(tmp_path / "in.csv", "h100-sxm", "gemm"), expected)
    assert (expected["predicted_us"] > 0).all()


def test_steps_equal_the_command_line(tmp_path, command_line):
    STEPS.to_csv(tmp_path / "in.csv", index=False)
    command_line("predict", "steps", "--hardware", "h100-sxm", "--model", "llama-3-8b", "--tensor",
                 2, "--in", tmp_path / "in.csv", "--out", tmp_path / "out.csv")
    predicted = twinserve.predict_steps(STEPS, "h100-sxm", "llama-3-8b", tensor=2)
    expected = read_csv(tmp_path / "out.csv")
    pd.testing.assert_frame_equal(predicted, expected, check_exact=True)


def test_deployments_equal_the_command_line(tmp_path, command_line):
    table = pd.DataFrame({"id": ["a", "b"], "model": ["llama-3.1-8b", "no-such"], "engine": "vllm",
                          "device": "h100-sxm", "isl": 512, "osl": 64, "concurrency": 4, "tp": 1})
    table.to_csv(tmp_path / "in.csv", index=False)
    command_line("predict", "serving", "--in", tmp_path / "in.csv", "--out", tmp_path / "out.csv")
    expected = read_csv(tmp_path / "out.csv").drop(columns="input")
    predicted = twinserve.predict_serving(table, jobs=1)
    pd.testing.assert_frame_equal(predicted, expected, check_exact=True)
    assert predicted["ttft_ms"][0] > predicted["tpot_ms"][0] > 0
    assert "no-such" in predicted["refused"][1]


def test_numbers_of_a_table_stay_as_they_were_written():
    # Read with the fast method of pandas before 3.1, some of them change in the last digit.
    spread = [1.0 / number for number in range(3, 1003)]
    table = pd.DataFrame({"m": 1, "n": 4096, "k": 4096, "weight": spread})
    assert list(twinserve.predict_operations(table, "h100-sxm", "gemm")["weight"]) == spread


def test_reports_of_a_prediction_reach_the_caller(monkeypatch, caplog):
    def reporting(source, target, *rest):
        GEMMS.to_csv(target)
        return ["may be far off"], ["three rows"]
    monkeypatch.setattr(twinserve.prediction._native, "predict_operations", reporting)
    with caplog.at_level("INFO", logger="twinserve"), \
            pytest.warns(twinserve.RunWarning, match="may be far off"):
        twinserve.predict_operations(GEMMS, "h100-sxm", "gemm")
    assert caplog.messages == ["three rows"]


def test_bad_tables_and_names_are_refused():
    with pytest.raises(twinserve.InputError, match="allowed: gemm"):
        twinserve.predict_operations(GEMMS, "h100-sxm", "gemv")
    with pytest.raises(twinserve.InputError):
        twinserve.predict_operations(STEPS, "h100-sxm", "gemm")
    with pytest.raises(twinserve.InputError, match="tensor"):
        twinserve.predict_steps(STEPS, "h100-sxm", "llama-3-8b", tensor=0)
