"""twinserve.predict_operations and predict_steps against the command line."""
import pandas as pd
import pytest
import twinserve

GEMMS = pd.DataFrame({"m": [1, 64, 4096], "n": [4096] * 3, "k": [4096] * 3})
STEPS = pd.DataFrame({"decode_reqs": [16, 0], "decode_context_tokens": [16000, 0],
                      "prefill_reqs": [0, 1], "prefill_tokens": [0, 512]})


def test_operations_equal_the_command_line(tmp_path, command_line):
    GEMMS.to_csv(tmp_path / "in.csv", index=False)
    command_line("predict", "ops", "--hardware", "h100-sxm", "--op", "gemm", "--in",
                 tmp_path / "in.csv", "--out", tmp_path / "out.csv")
    expected = pd.read_csv(tmp_path / "out.csv")
    pd.testing.assert_frame_equal(twinserve.predict_operations(GEMMS, "h100-sxm", "gemm"), expected)
    pd.testing.assert_frame_equal(
        twinserve.predict_operations(tmp_path / "in.csv", "h100-sxm", "gemm"), expected)
    assert (expected["predicted_us"] > 0).all()


def test_steps_equal_the_command_line(tmp_path, command_line):
    STEPS.to_csv(tmp_path / "in.csv", index=False)
    command_line("predict", "steps", "--hardware", "h100-sxm", "--model", "llama-3-8b", "--tensor",
                 2, "--in", tmp_path / "in.csv", "--out", tmp_path / "out.csv")
    predicted = twinserve.predict_steps(STEPS, "h100-sxm", "llama-3-8b", tensor=2)
    pd.testing.assert_frame_equal(predicted, pd.read_csv(tmp_path / "out.csv"))


def test_bad_tables_and_names_are_refused():
    with pytest.raises(twinserve.InputError, match="allowed: gemm"):
        twinserve.predict_operations(GEMMS, "h100-sxm", "gemv")
    with pytest.raises(twinserve.InputError):
        twinserve.predict_operations(STEPS, "h100-sxm", "gemm")
    with pytest.raises(twinserve.InputError, match="tensor"):
        twinserve.predict_steps(STEPS, "h100-sxm", "llama-3-8b", tensor=0)
