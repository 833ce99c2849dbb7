"""Traces in and out."""
import pathlib

import numpy as np
import pandas as pd
import pytest
import twinserve

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "traces/samples"


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.*")), ids=lambda path: path.name)
def test_every_format_is_read(sample):
    # The sample of apexplus holds several traces.
    filters = {"tokenizer": "llama", "workload": "creation", "poisson_rate": 0.25}
    # The first line of a log of intended arrivals is that of any log, so its format must be named.
    frame = twinserve.read_trace(
        sample, format=sample.stem if sample.stem == "request_log_intended" else "",
        filters=filters if sample.stem == "apexplus" else None)
    assert len(frame) > 0
    assert (frame["prompt_tokens"] >= 1).all() and (frame["output_tokens"] >= 1).all()
    assert frame["arrival_ns"].is_monotonic_increasing


def test_a_trace_survives_writing_and_reading(tmp_path):
    frame = pd.DataFrame({
        "arrival_ns": [0, 10, 10], "prompt_tokens": [32, 16, 5], "output_tokens": [1, 2, 3],
        "tenant": [0, 7, 1], "session": np.array([1, 2**63, 0], np.uint64),
        "prefix_chunk_tokens": [16, 16, 0], "prefix_chunks": [[1, 2**64 - 1], [1], []]})
    for name in ("trace.csv", "trace.csv.gz"):
        twinserve.write_trace(frame, tmp_path / name)
        read = twinserve.read_trace(tmp_path / name)
        for column in ("arrival_ns", "prompt_tokens", "output_tokens", "tenant", "session"):
            assert list(read[column]) == list(frame[column]), column
        assert list(read["max_output_tokens"]) == [1, 2, 3]
        assert [list(chunks) for chunks in read["prefix_chunks"]] == [[1, 2**64 - 1], [1], []]


def test_a_written_trace_is_a_workload(tiny, tmp_path):
    path = tmp_path / "trace.csv"
    twinserve.write_trace(pd.DataFrame({"arrival_s": [0.0, 0.5], "prompt_tokens": [10, 20],
                                        "output_tokens": [3, 4]}), path)
    run = twinserve.run(tiny, {"workload": f'{{ trace {{ path: "{path}" }} }}'})
    assert list(run.requests["arrival_s"]) == [0.0, 0.5]
    assert list(run.requests["output_tokens"]) == [3, 4]


@pytest.mark.parametrize("changed, what", [
    ({"prompt_tokens": [0, 1]}, "row 0, prompt_tokens"),
    ({"prompt_tokens": [1.5, 1]}, "prompt_tokens: holds other values than integers"),
    ({"arrival_ns": [5, 4]}, "row 1, arrival_ns"),
    ({"max_output_tokens": [1, 1]}, "row 1, max_output_tokens"),
    # Numbers of 64 bits without a sign and those with one are not taken for each other.
    ({"arrival_ns": np.array([0, 2**63], np.uint64)}, "row 1, arrival_ns: is 9223372036854775808"),
    ({"arrival_ns": [0, 1e19]}, "row 1, arrival_ns: is 10000000000000000000"),
    ({"arrival_ns": [0, np.inf]}, "arrival_ns: holds other values than integers"),
    ({"session": [-1, 0]}, "row 0, session: is -1; allowed: 0 to 18446744073709551615"),
    ({"prefix_chunks": [[], [-1]]}, "row 1, prefix_chunks"),
    ({"prefix_chunks": [[], np.array([-1])]}, "row 1, prefix_chunks"),
    ({"prefix_chunks": [[1.5], []]}, "row 0, prefix_chunks"),
])
def test_bad_rows_are_refused(tmp_path, changed, what):
    frame = {"arrival_ns": [0, 1], "prompt_tokens": [1, 1], "output_tokens": [1, 2], **changed}
    with pytest.raises(twinserve.InputError, match=what):
        twinserve.write_trace(pd.DataFrame(frame), tmp_path / "trace.csv")
    assert not list(tmp_path.iterdir())


def test_a_bad_file_is_named(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("arrival_ns,prompt_tokens,output_tokens\n0,x,1\n")
    with pytest.raises(twinserve.InputError, match="bad.csv.*2.*prompt_tokens"):
        twinserve.read_trace(path)
