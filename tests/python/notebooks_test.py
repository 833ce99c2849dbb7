"""Every notebook runs from its first cell to its last; notebooks are kept without outputs."""
import ast
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSTALL = '%pip install -q "twinserve[plots]"'  # for readers; here the package is there


def check_chunk_size(values):
    # experiments/chunk_size/README.md: at 20 requests/s, p99 TTFT is 619 ms with 1,024 tokens and
    # 307 ms with 4,096, p99 TPOT 33 and 46 ms; 512 tokens are close to saturation.
    assert list(values[-1].iloc[:, 0]) == [1024]


def check_how_many_gpus(values):
    one, cost, fleet, answer = values[0], values[1], values[2], values[-1]
    assert (one["low"] <= one["value"]).all() and (one["value"] <= one["high"]).all()
    assert answer["gpu"] == cost.index[0] == "h100-sxm"
    # One GPU carries 19 to 22 requests/s, so that two of them cannot carry 50.
    assert answer["gpus"] == 3
    assert answer["per_hour"] == 3 * 2.5
    assert answer["per_1000_requests"] == pytest.approx(7.5 / 180, abs=1e-4)
    assert list(fleet["saturated"]) == ["yes", "no", "no"]


def check_disaggregation(values):
    # experiments/disaggregation/README.md: 90 % keep the objective up to these rates.
    assert dict(values[-1]) == {"colocated": 6, "prefill_1_decode_3": 6, "prefill_2_decode_2": 6,
                                "prefill_3_decode_1": 2}
    from matplotlib import pyplot as plt  # after the test has chosen the backend
    panel = next(panel for panel in plt.gcf().axes if panel.get_yscale() == "log")
    assert panel.get_ylim()[0] > 0


def check_own_policy(values):
    assert values[-1] == (50, True)


def check_validate_my_run(values):
    # Without the 6.4 ms of a server that was not there, TTFT is simulated 5 % too short in place of
    # 10 % too long; checks/gpu_check/README.md: `validate` says -3.3, -1.0 and -0.8 % of three runs.
    errors = values[0]
    assert errors.loc["mean_ttft_ms", "vLLM 0.33.0"] > 8
    assert -8 < errors.loc["mean_ttft_ms", "as it was"] < 0
    assert abs(errors.loc[["mean_tpot_ms", "mean_e2el_ms"], "as it was"]).max() < 4


@pytest.mark.filterwarnings("ignore::twinserve.RunWarning")
@pytest.mark.parametrize("path", sorted((ROOT / "apps/python/notebooks").glob("*.ipynb")),
                         ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 3
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    assert "".join(cells[0]["source"]) == INSTALL
    names = {"__name__": "__main__"}
    values = []
    for number, cell in enumerate(cells[1:], 1):
        tree = ast.parse("".join(cell["source"]), f"{path.name}, code cell {number}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, path.name, "exec"), names)
        if last is not None:
            values.append(eval(compile(ast.Expression(last.value), path.name, "eval"), names))
    assert all(repr(value) for value in values)
    globals()[f"check_{path.stem}"](values)
    if path.stem == "own_policy":
        assert "I4" in capsys.readouterr().out
